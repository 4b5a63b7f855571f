"""The errors of the client: one class for each kind of failure, with a message that says what to do."""

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
    """Base class of all errors of this client. `message` is a sentence for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConnectError(TonearmError):
    """The node could not be reached. `cause` says why."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class ApiError(TonearmError):
    """The node refused a request. `status` is the HTTP status, `code` a stable code, `message` the node's text.
    `retry_after_s` is the number of seconds after which to try again, if the node gave one."""

    def __init__(self, status: int, code: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s


class BadRequest(ApiError):
    """400: the request is invalid, or the node cannot do it."""


class Unauthorized(ApiError):
    """401: the password is missing or wrong."""


class Forbidden(ApiError):
    """403: the node's policy forbids the source."""


class NotFound(ApiError):
    """404: there is no such player, track, overlay or picture."""


class PlayerNotFound(NotFound):
    """404: the player `player_id` does not exist, or not any more."""

    def __init__(self, player_id: str) -> None:
        super().__init__(404, "player_not_found", f"There is no player {player_id!r}; node.create_player makes one.")
        self.player_id = player_id


class Conflict(ApiError):
    """409: the request does not fit the player's current state, such as a seek in a live stream."""


class PlayerExists(Conflict):
    """409: a player with this id exists already."""


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
    """The error of the class that fits the status and code."""
    kind = _BY_STATUS.get(status) or (NodeFailed if status >= 500 else ApiError)
    kind = PlayerExists if code == "player_exists" else kind
    return kind(status, code, message, retry_after_s)
