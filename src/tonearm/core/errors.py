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

    code: ErrorCode
    status: int

    def __init_subclass__(cls, code: ErrorCode | None = None, status: int = 400) -> None:
        if code is not None:  # otherwise those of the base
            cls.code, cls.status = code, status

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadRequest(RequestError, code="bad_request"):
    """The request is wrong."""


class InvalidIdentifier(RequestError, code="invalid_identifier"):
    """A text is neither a source nor an encoded track."""


class SourceBlocked(RequestError, code="source_blocked", status=403):
    """Refused by `sources.allowed` or `sources.blocked`."""


class SourceRefused(RequestError, code="source_refused", status=403):
    """Refused by `sources.files` or `sources.private_networks`."""


class PlayerNotFound(RequestError, code="player_not_found", status=404):
    """There is no such player."""

    @classmethod
    def of(cls, player_id: str) -> Self:
        return cls(f"There is no player {player_id!r}. Create it with POST /v0/players.")


class TrackNotFound(RequestError, code="track_not_found", status=404):
    """No such track waits."""


class OverlayNotFound(RequestError, code="overlay_not_found", status=404):
    """There is no such overlay."""


class NoArtwork(RequestError, code="no_artwork", status=404):
    """The current file has no picture."""


class LibraryFileNotFound(RequestError, code="file_not_found", status=404):
    """The library has no such file or folder."""


class UploadsOff(RequestError, code="uploads_off", status=403):
    """The node takes no files."""


class DiskFull(RequestError, code="disk_full", status=507):
    """The disk has no room for a file."""


class NotSeekable(RequestError, code="not_seekable", status=409):
    """The current track is live, or its source cannot be read from the middle."""


class NoPrevious(RequestError, code="no_previous", status=409):
    """No track ended before."""


class PlayerExists(RequestError, code="player_exists", status=409):
    """A player has this id already."""

    @classmethod
    def of(cls, player_id: str) -> Self:
        return cls(f"Player {player_id!r} exists; delete it first, or use another id.")


class LimitReached(RequestError, code="limit_reached", status=429):
    """A limit of the configuration is reached."""


class ResolverDisabled(RequestError, code="resolver_disabled"):
    """The source is a page, and the node resolves no pages."""


class LoadFailed(RequestError, code="load_failed"):
    """The entries of a playlist cannot be loaded."""


class ResolveFailed(RequestError, code="resolve_failed"):
    """The link behind a page was not found."""


class EngineGone(RequestError, code="engine_lost", status=503):
    """The cluster's engine does not answer."""

    @classmethod
    def of(cls, error: Exception) -> Self:
        return cls(f"The cluster's engine is lost ({error}). Try again later.")


class NodeUnreachable(RequestError, code="node_unreachable", status=503):
    """The node of the cluster that has the player does not answer."""


class NodeNotFound(RequestError, code="node_not_found", status=404):
    """The cluster has no node of this name."""


class VoiceDisabled(RequestError, code="voice_disabled"):
    """The node speaks in no voice channels."""


class VoiceTaken(RequestError, code="voice_taken", status=409):
    """Another player speaks for this bot in this guild."""


class EndpointBlocked(RequestError, code="endpoint_blocked", status=403):
    """Refused by `voice.endpoints` or `voice.private_networks`."""
