"""HTTP to one API server: a question, a deadline, and JSON or an error of `core/errors.py`.

The HTTP client is httpx2. Its timeouts are per read and know nothing of name resolution or of a login helper that hangs, so each
question is asked in a thread of its own and waited for until the deadline. The thread ends soon after it: an answer that trickles
is not read on for nobody.

Asked again within the deadline is what cannot have had an effect: a question whose connection broke (an idle one may have been
closed by a load balancer in the same moment), and anything that the server did not look at (429, or no connection at all).
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import weakref
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx2

from glowplug.core import bounded
from glowplug.core.clock import SYSTEM, Clock, Deadline
from glowplug.core.errors import AccessDeniedError, GlowplugError, UnavailableError
from glowplug.kube import answers, listing
from glowplug.kube.questions import JSON, MOST_ANSWER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from glowplug.kube.contract import Object
    from glowplug.kube.pool import Pool
    from glowplug.kube.questions import Question

T = TypeVar("T")

_ATTEMPTS: Final = 4
_FIRST_WAIT: Final = 0.2
_MOST_REFUSAL: Final = 1 << 18
_MOST_PASSING: Final = 1 << 30
"""Bytes of a list that passes by and is not kept."""
_MOST_LINE: Final = 32 << 20
"""Bytes of one event of a watch; etcd takes 1.5 MiB for an object."""


class Link:
    """A connection pool to one server. May be used from several threads."""

    def __init__(
        self,
        pool: Pool,
        *,
        seconds: float = 30.0,
        server_name: str = "",
        most_bytes: int = MOST_ANSWER,
        clock: Clock = SYSTEM,
    ) -> None:
        """`server_name`: the name in the server's certificate, where it is not that of its address. `most_bytes`: of one answer."""
        self._most = most_bytes
        self._pool = pool
        self._seconds = seconds
        self._extensions = {"sni_hostname": server_name} if server_name else {}
        self._clock = clock
        # Who forgets to close leaves no sockets behind.
        weakref.finalize(self, pool.close).atexit = False

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def ask(self, question: Question) -> dict[str, Any]:
        """The JSON object that answers. Raises as `kube/contract.py` says, and answers.ExpiredError, answers.TooLargeError."""
        text = self.read(question, most_bytes=self._most)
        if len(text) == self._most:
            raise _too_large(question)
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise _no_api(question)
        return said

    def listed(self, question: Question, keep: Callable[[Object], Object | None]) -> tuple[dict[str, Any], int]:
        """As `ask`, for a list: its items as `keep` leaves them (`kube/listing.py`), and how many bytes there were.

        The most that an answer may have is for what is kept: an answer of which `keep` leaves little may be larger.
        """
        try:
            return self._again(question, lambda deadline: self._taken(question, keep, deadline))
        except (ValueError, RecursionError):
            raise _no_api(question) from None

    def read(self, question: Question, *, most_bytes: int, seconds: float = 0.0) -> bytes:
        """The bytes that answer, cut at a size. `seconds` 0 means the link's own. Raises as `ask`."""
        return self._again(question, lambda deadline: self._once(question, most_bytes, deadline), seconds)

    def _again(self, question: Question, once: Callable[[Deadline], T], seconds: float = 0.0) -> T:
        deadline = Deadline.after(seconds or self._seconds, self._clock)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return bounded.call(
                    lambda: once(deadline),
                    deadline,
                    f"asking the Kubernetes API ({question.asked})",
                )
            except UnavailableError as error:
                wait = max(error.retry_after or 0.0, _FIRST_WAIT * 2.0**attempt)
                harmless = error.code == "throttled" or isinstance(error, _UnheardError) or question.method == "GET"
                vain = error.code == "timeout" or isinstance(error, answers.TooLargeError)
                if not harmless or vain or attempt == _ATTEMPTS or wait >= deadline.remaining():
                    raise
                self._clock.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    @contextlib.contextmanager
    def stream(self, question: Question, *, idle_seconds: float) -> Iterator[Stream]:
        """An answer without end, which breaks where nothing comes for `idle_seconds`. Raises as `ask`."""
        timeout = httpx2.Timeout(min(self._seconds, idle_seconds), read=idle_seconds)
        with self._answer(question, timeout) as response:
            yield Stream(response, question.asked)

    def _once(self, question: Question, most_bytes: int, deadline: Deadline) -> bytes:
        with self._answer(question, httpx2.Timeout(self._seconds)) as response:
            return _bytes(response, most_bytes, deadline)

    def _taken(
        self, question: Question, keep: Callable[[Object], Object | None], deadline: Deadline
    ) -> tuple[dict[str, Any], int]:
        read = 0
        passing = keep is not listing.whole

        def pieces() -> Iterator[bytes]:
            nonlocal read
            for piece in response.iter_bytes():
                deadline.check("reading the Kubernetes API's answer")
                read += len(piece)
                if read > (_MOST_PASSING if passing else self._most):
                    raise _too_large(question)
                yield piece

        with self._answer(question, httpx2.Timeout(self._seconds)) as response:
            return listing.take(pieces(), keep), read

    @contextlib.contextmanager
    def _answer(self, question: Question, timeout: httpx2.Timeout) -> Iterator[httpx2.Response]:
        with _translated(question.asked), contextlib.ExitStack() as stack:
            response = self._sent(question, timeout, stack)
            stack.callback(response.close)
            if not 200 <= response.status_code < 300:
                said = _bytes(response, _MOST_REFUSAL, Deadline.after(self._seconds, self._clock))
                raise answers.refusal(response.status_code, said, response.headers, question.asked)
            yield response

    def _sent(self, question: Question, timeout: httpx2.Timeout, stack: contextlib.ExitStack) -> httpx2.Response:
        """The answer's beginning. Where its certificate is not believed, whom to believe is read again, and it is asked again."""
        try:
            return self._send(question, timeout, stack)
        except httpx2.ConnectError as error:
            if not _is_untrusted(error) or not self._pool.renew():
                raise
        return self._send(question, timeout, stack)

    def _send(self, question: Question, timeout: httpx2.Timeout, stack: contextlib.ExitStack) -> httpx2.Response:
        http = stack.enter_context(self._pool.client())
        request = http.build_request(
            question.method,
            question.path,
            params=dict(question.query),
            content=None if question.body is None else json.dumps(question.body).encode(),
            headers={"Accept": JSON, **({} if question.body is None else {"Content-Type": question.content_type})},
            timeout=timeout,
            extensions=dict(self._extensions),
        )
        return http.send(request, stream=True)


class Stream:
    """Lines of an answer, read in one thread and ended from another."""

    def __init__(self, response: httpx2.Response, asked: str) -> None:
        self._response = response
        self._asked = asked

    def lines(self) -> Iterator[bytes]:
        """Lines, split at line feeds alone: httpx's own splitting takes a next-line character within a JSON text for an end."""
        rest = bytearray()
        for piece in self._response.iter_bytes():
            rest += piece
            if len(rest) > _MOST_LINE:
                raise UnavailableError(f"the Kubernetes API sends a line without end ({self._asked})")
            if b"\n" in piece:
                *whole, last = rest.split(b"\n")
                rest = bytearray(last)
                yield from (bytes(one) for one in whole if one)

    def cut(self) -> None:
        """End a read that is under way in another thread: closing a socket does not wake it, shutting it down does."""
        with contextlib.suppress(Exception):  # whatever state it is in, it is not wanted any more
            raw = self._response.extensions["network_stream"].get_extra_info("socket")
            socket.socket.shutdown(raw, socket.SHUT_RDWR)


class _UnheardError(UnavailableError):
    """No connection came about: the server did not hear the question."""


def _too_large(question: Question) -> UnavailableError:
    return answers.TooLargeError(f"the Kubernetes API answers with too much ({question.asked})")


def _no_api(question: Question) -> UnavailableError:
    return UnavailableError(
        f"what answers is no Kubernetes API ({question.asked})",
        hint="check the server's address, proxies and sign-in pages on the way",
    )


@contextlib.contextmanager
def _translated(asked: str) -> Iterator[None]:
    try:
        yield
    except GlowplugError:
        raise
    except httpx2.TimeoutException as error:
        kind = _UnheardError if isinstance(error, (httpx2.ConnectTimeout, httpx2.PoolTimeout)) else UnavailableError
        raise kind(f"the Kubernetes API does not answer in time ({asked})", code="timeout") from error
    except httpx2.ConnectError as error:
        raise _unreachable(error, asked) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
        words = answers.line(error) or type(error).__name__
        raise UnavailableError(f"the Kubernetes API cannot be reached ({asked}): {words}") from error


def _unreachable(error: httpx2.ConnectError, asked: str) -> GlowplugError:
    words = answers.line(error)
    if _is_untrusted(error):
        return AccessDeniedError(
            f"the Kubernetes API's certificate is not trusted ({asked}): {words}",
            hint="the kubeconfig names another cluster's authority, or something on the way reads along",
        )
    return _UnheardError(f"the Kubernetes API cannot be reached ({asked}): {words}")


def _is_untrusted(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _bytes(response: httpx2.Response, most: int, deadline: Deadline) -> bytes:
    found = bytearray()
    for piece in response.iter_bytes():
        deadline.check("reading the Kubernetes API's answer")
        found += piece
        if len(found) >= most:
            break
    return bytes(found[:most])
