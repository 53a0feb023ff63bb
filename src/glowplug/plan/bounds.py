"""The limits that can bound a load, each in words. `roofline` says which one it is; docs/howto/plan-a-model.md what to do then."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "unknown"
"""Where nothing that could bound the load is known."""

SAID: Final = {
    "primary-network": "the network card bounds it",
    "streamer": "nobody has published a faster load by the streamer",
    "s3-request-rate": "S3's request rate for one prefix bounds it",
    "s3-connections": "the connections to S3 bound it",
    "pcie": "the way from host to GPU bounds it",
    "nat": "the NAT gateway bounds it",
    "endpoint": "the interface endpoint bounds it",
}
"""Names as `Load.bound` and `Fleet.bound` have them."""
