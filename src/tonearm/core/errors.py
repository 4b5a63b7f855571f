"""The errors that refuse a request, each with its code and HTTP status."""

from typing import Literal, Self, TypeAlias

ErrorCode: TypeAlias = Literal[
    "bad_request",
    "not_ready",
    "unauthorized",
    "foreign_origin",
    "source_blocked",
    "source_refused",
    "not_found",
    "player_not_found",
    "track_not_found",
    "method_not_allowed",
    "player_exists",
    "no_artwork",
    "file_not_found",
    "not_seekable",
    "no_previous",
    "overlay_not_found",
    "body_too_large",
    "uploads_off",
    "disk_full",
    "limit_reached",
    "resolver_disabled",
    "resolve_failed",
    "load_failed",
    "invalid_identifier",
    "upgrade_required",
    "engine_lost",
    "node_unreachable",
    "node_not_found",
    "voice_disabled",
    "voice_taken",
    "endpoint_blocked",
    "internal",
]


class RequestError(Exception):
    """Base of all errors with a status of their own. `message` says what is wrong and what to do."""

    code: ErrorCode = "bad_request"
    status: int = 400

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadRequest(RequestError):
    code = "bad_request"


class InvalidIdentifier(RequestError):
    code = "invalid_identifier"


class SourceBlocked(RequestError):
    """Refused by `sources.allowed` or `sources.blocked`."""

    code = "source_blocked"
    status = 403


class SourceRefused(RequestError):
    """Refused by `sources.files` or `sources.private_networks`."""

    code = "source_refused"
    status = 403


class PlayerNotFound(RequestError):
    code = "player_not_found"
    status = 404

    @classmethod
    def of(cls, player_id: str) -> Self:
        return cls(f"There is no player {player_id!r}. Create it with POST /v0/players.")


class TrackNotFound(RequestError):
    code = "track_not_found"
    status = 404


class OverlayNotFound(RequestError):
    code = "overlay_not_found"
    status = 404


class NoArtwork(RequestError):
    code = "no_artwork"
    status = 404


class LibraryFileNotFound(RequestError):
    code = "file_not_found"
    status = 404


class UploadsOff(RequestError):
    """The node takes no files."""

    code = "uploads_off"
    status = 403


class DiskFull(RequestError):
    code = "disk_full"
    status = 507


class NotSeekable(RequestError):
    """The current track is live, or its source cannot be read from the middle."""

    code = "not_seekable"
    status = 409


class NoPrevious(RequestError):
    code = "no_previous"
    status = 409


class PlayerExists(RequestError):
    code = "player_exists"
    status = 409

    @classmethod
    def of(cls, player_id: str) -> Self:
        return cls(f"Player {player_id!r} exists; delete it first, or use another id.")


class LimitReached(RequestError):
    code = "limit_reached"
    status = 429


class ResolverDisabled(RequestError):
    code = "resolver_disabled"


class LoadFailed(RequestError):
    """The entries of a playlist cannot be loaded."""

    code = "load_failed"


class ResolveFailed(RequestError):
    """The link behind a page was not found."""

    code = "resolve_failed"


class EngineGone(RequestError):
    """The cluster's engine does not answer."""

    code = "engine_lost"
    status = 503

    @classmethod
    def of(cls, error: Exception) -> Self:
        return cls(f"The cluster's engine is lost ({error}). Try again later.")


class NodeUnreachable(RequestError):
    """The node of the cluster that has the player does not answer."""

    code = "node_unreachable"
    status = 503


class NodeNotFound(RequestError):
    """The cluster has no node of this name."""

    code = "node_not_found"
    status = 404


class VoiceDisabled(RequestError):
    """The node speaks in no voice channels."""

    code = "voice_disabled"


class VoiceTaken(RequestError):
    """Another player speaks for this bot in this guild."""

    code = "voice_taken"
    status = 409


class EndpointBlocked(RequestError):
    """Refused by `voice.endpoints` or `voice.private_networks`."""

    code = "endpoint_blocked"
    status = 403
