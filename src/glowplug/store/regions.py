"""Where a bucket is. S3 tells it to anybody who asks for the bucket, signed or not, in a header that obstore does not
hand on.
"""

from __future__ import annotations

import urllib.parse


def endpoint(region: str) -> str:
    """AWS's own S3 address in a region (regions of China have a domain of their own)."""
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://s3.{region}.{domain}"


def of_bucket(server: str, bucket: str, seconds: float) -> str:
    """The value of `x-amz-bucket-region` in the answer to a HEAD of the bucket, "" where nobody says so in `seconds`."""
    import http.client  # with ssl 20 ms, for a question that is rarely asked

    parts = urllib.parse.urlsplit(server)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=max(seconds, 0.001))
    try:
        connection.request("HEAD", f"{parts.path}/{urllib.parse.quote(bucket)}")
        return connection.getresponse().getheader("x-amz-bucket-region") or ""
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()
