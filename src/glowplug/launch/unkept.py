"""The owner of a start with neither store nor outbox: the verdict is told, nothing is kept but the history of the cache root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Optional

from glowplug.core.documents.start import PublishOutcome, PublishResult
from glowplug.launch.telling import tell_verdict

if TYPE_CHECKING:
    from glowplug.core.clock import Deadline
    from glowplug.core.documents.start import Start
    from glowplug.engines.adapter import Entry
    from glowplug.launch.conclusion import Conclusion
    from glowplug.launch.prepare import Prepared


class UnkeptOwner:
    """An `observer.Owner`."""

    source = "exec"

    def __init__(self, prepared: Prepared, say: Callable[[str], None]) -> None:
        self._prepared = prepared
        self._say = say

    def note(self, start: Start) -> None:
        """The report is all that is kept of it."""

    def cold_seconds(self, own: tuple[Entry, ...]) -> Optional[float]:
        """Not known: nobody reads the engine's log lines, so there is nothing to compare with either."""
        del own
        return None

    def publish(
        self, conclusion: Conclusion, start: Start, ready_seconds: float, deadline: Deadline
    ) -> Optional[PublishResult]:
        """Nowhere."""
        del conclusion, start, ready_seconds, deadline
        return PublishResult(PublishOutcome.SKIPPED, self._prepared.unknown or "no_store")

    def failed(self) -> None:
        """Nothing was given to it."""

    def succeeded(self, conclusion: Conclusion) -> None:
        """Nothing was given to it."""

    def tell(self, conclusion: Conclusion, ready_seconds: float) -> None:
        """One line."""
        tell_verdict(conclusion.verdict, ready_seconds, self._say)

    def tell_publish(self, result: PublishResult) -> None:
        """No news."""
