"""What goes wrong between a program and a node, each kind a class, each with a sentence that says what to do."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

Cause: TypeAlias = Literal[
    "wrong_address",
    "name_not_found",
    "nothing_listens",
    "timeout",
    "tls_expected",
    "no_tls_there",
    "not_tonearm",
    "lost",
]


class TonearmError(Exception):
    """Base of all errors of this client. `message` is a sentence for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConnectError(TonearmError):
    """No node could be reached; `cause` says why."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class ApiError(TonearmError):
    """The node refused a request: with an HTTP `status`, a stable `code`, and its own words. It may say after how many
    seconds to try again: `retry_after_s`."""

    def __init__(self, status: int, code: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s


class BadRequest(ApiError):
    """400: the node cannot do what was asked, as it was asked."""


class Unauthorized(ApiError):
    """401: the password is missing or wrong."""


class Forbidden(ApiError):
    """403: the node's policy forbids the source."""


class NotFound(ApiError):
    """404: there is no such player, track, overlay or picture."""


class PlayerNotFound(NotFound):
    """404: there is no player `player_id`, or no longer."""

    def __init__(self, player_id: str) -> None:
        super().__init__(404, "player_not_found", f"There is no player {player_id!r}; node.create_player makes one.")
        self.player_id = player_id


class Conflict(ApiError):
    """409: it does not fit what the player does, such as a seek in a live stream."""


class PlayerExists(Conflict):
    """409: the id is taken."""


class LimitReached(ApiError):
    """429: a limit of the node is reached, or the node is overloaded."""


class NodeFailed(ApiError):
    """5xx: the node failed, or is shutting down."""


_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    429: LimitReached,
}


def api_error(status: int, code: str, message: str, retry_after_s: float | None = None) -> ApiError:
    """The error of the class that fits."""
    kind = _BY_STATUS.get(status) or (NodeFailed if status >= 500 else ApiError)
    kind = PlayerExists if code == "player_exists" else kind
    return kind(status, code, message, retry_after_s)
