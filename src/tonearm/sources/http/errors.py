"""The failures of fetching over HTTP, made from what the HTTP client raises."""

import os
import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import yarl

from tonearm.core.errors import RequestError, SourceBlocked, SourceRefused
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.printable import one_line
from tonearm.sources.guard import AddressRefusedError
from tonearm.sources.local_file import hint_for

_PASSING_STATUSES: Final = frozenset({502, 503, 504})
# Of links that were good before and have expired. Google and Amazon answer with 400 then.
EXPIRED_STATUSES: Final = frozenset({400, 401, 403, 404, 410})

PROXY_WANTS_LOGIN: Final = 407


class ProxyError(PlayError):
    """The proxy of a page failed; the server behind the proxy may work."""


class PassingError(PlayError):
    """A failure that may pass: a retry a moment later may succeed."""


def may_pass(error: PlayError) -> bool:
    """Whether a transfer that was lost by this error may be resumed. A slow server counts, too."""
    return isinstance(error, PassingError) or error.failure.code is FailureCode.TIMEOUT


def refused(message: str, hint: str) -> PlayError:
    return PlayError.of(FailureCode.SOURCE_REFUSED, Stage.CONNECT, message, hint)


def admission_error(error: RequestError) -> PlayError:
    """The error for a URI of a redirect, a page or a playlist that is refused for its form or by the policy."""
    if isinstance(error, SourceBlocked):
        code, hint = FailureCode.SOURCE_BLOCKED, "The operator decides: sources.allowed and sources.blocked."
    elif isinstance(error, SourceRefused):
        code, hint = FailureCode.SOURCE_REFUSED, "The operator decides: sources.files and sources.private_networks."
    else:
        code, hint = FailureCode.SOURCE_REFUSED, "Check how the URI is written."
    return PlayError.of(code, Stage.CONNECT, error.message, hint)


def connect_error(error: Exception, host: str) -> PlayError:
    """The failure for an error between the lookup of `host` and the end of the response's header."""
    refusal = _refusal_in(error)
    if refusal is not None:
        return refused(refusal.message, refusal.hint)
    # Before a request through a proxy the node looks up the name itself, and gets the system's bare error.
    os_error = error if not isinstance(error, aiohttp.ClientError) else getattr(error, "os_error", None)
    if isinstance(os_error, socket.gaierror):
        message = f"The host name {host} was not found."
        return _passing(FailureCode.NAME_NOT_FOUND, message, "Check the spelling of the host, and the node's DNS.")
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        message = f"No secure connection to {host}: {_reason(error)}."
        return _final(FailureCode.TLS, message, "Correct the server's certificate or TLS setup.")
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        message = f"Connecting to {host} took too long."
        hint = "Check that the server is up and reachable from the node, or raise sources.connect_timeout_s."
        return _final(FailureCode.TIMEOUT, message, hint)
    if isinstance(error, TimeoutError):
        message = f"{host} accepted the connection but did not answer in time."
        return _final(FailureCode.TIMEOUT, message, "Try again later, or raise sources.headers_timeout_s.")
    if isinstance(error, aiohttp.ClientResponseError):
        message = f"The answer of {host} cannot be read as HTTP: {_for_message(error.message)}."
        return _final(FailureCode.CONNECT_FAILED, message, "Check that host and port belong to a web server.")
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return refused(f"{host!r} is not a valid host.", "Check how the URI is written.")
    if isinstance(os_error, OSError):
        message = f"No connection to {host}: {_reason(error)}."
        hint = hint_for(os_error, "Check host and port, and that the server is up.")
        return _passing(FailureCode.CONNECT_FAILED, message, hint)
    message = f"{host} closed the connection without an answer."
    return _passing(FailureCode.CONNECTION_LOST, message, "Try again; if it fails again, check the server.")


def proxy_error(error: Exception, proxy: str) -> ProxyError | None:
    """As `connect_error`, for an error that `proxy` caused."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return proxy_refuses(proxy, error.status)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return _proxy_failed(proxy, "it made no connection in time", FailureCode.TIMEOUT)
    url = yarl.URL(proxy)
    if isinstance(error, aiohttp.ClientConnectorError) and (error.host, error.port) == (url.raw_host, url.port):
        return _proxy_failed(proxy, _reason(error))
    return None


def proxy_refuses(proxy: str, status: int) -> ProxyError:
    return _proxy_failed(proxy, f"it answered with status {status}")


def _proxy_failed(proxy: str, reason: str, code: FailureCode = FailureCode.CONNECT_FAILED) -> ProxyError:
    parts = urlsplit(proxy)  # of which name and password are nobody's business
    message = f"The proxy {parts.hostname}:{parts.port} failed: {reason}."
    return ProxyError.of(code, Stage.CONNECT, message, "The operator decides: resolver.proxies.")


def read_error(error: Exception, host: str) -> PlayError:
    """The failure for an error in a response's body."""
    if isinstance(error, TimeoutError):
        message = f"{host} stopped sending before the end."
        hint = "Try again later, or raise sources.stall_timeout_s."
        return PassingError.of(FailureCode.TIMEOUT, Stage.READ, message, hint)
    message = f"The connection to {host} was lost before the end."
    hint = "Try again; if it fails again, check the server and the network."
    return PassingError.of(FailureCode.CONNECTION_LOST, Stage.READ, message, hint)


def status_error(status: int, host: str, stage: Stage) -> PlayError:
    """The failure for an answer with an error status."""
    failure = PlayFailure(
        FailureCode.HTTP_STATUS, stage, f"{host} answered with status {status}.", _status_hint(status), status
    )
    return PassingError(failure) if status in _PASSING_STATUSES else PlayError(failure)


def _status_hint(status: int) -> str:
    if status in (401, 407):
        return "The server needs a login; give a URI that needs no login."
    if status == 403:
        return "The server refuses access; the link may have expired or be bound to another address."
    if status in (404, 410):
        return "The server has no such file, or no longer; check the URI."
    if status == 429:
        return "The server received too many requests; try again later."
    if status >= 500:
        return "The server has a problem; try again later."
    return "Open the URI in a browser to see what the server says."


def _passing(code: FailureCode, message: str, hint: str) -> PlayError:
    return PassingError.of(code, Stage.CONNECT, message, hint)


def _final(code: FailureCode, message: str, hint: str) -> PlayError:
    return PlayError.of(code, Stage.CONNECT, message, hint)


def _refusal_in(error: BaseException) -> AddressRefusedError | None:
    """The guard's refusal among the causes of the client's error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AddressRefusedError):
            return cause
        cause = cause.__cause__
    return None


def _reason(error: Exception) -> str:
    """The operating system's or the TLS library's own words, without the client's wrapping."""
    inner: BaseException = error
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        inner = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        inner = error.os_error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return inner.verify_message
    if isinstance(inner, ssl.SSLError) and inner.reason:
        return inner.reason.replace("_", " ").lower()
    if isinstance(inner, socket.gaierror):
        return "name lookup failed"
    if isinstance(inner, OSError) and inner.errno:
        return os.strerror(inner.errno)  # the event loop's own text is about its calls
    return _for_message(str(inner)) or type(inner).__name__


def _for_message(text: str) -> str:
    """Foreign text made fit for a message: printable, one line, short."""
    return one_line(text)[:200].rstrip(".")
