"""Why a track cannot be played: the value in a `TrackException`, and the failures that the rules themselves detect."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self


class Stage(StrEnum):
    """The stage at which a track failed, on the way from its URI to its frames."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    READ = "read"
    DECODE = "decode"
    FILTER = "filter"


class FailureCode(StrEnum):
    """The closed list of failure codes, for programs."""

    FILE_MISSING = "file_missing"
    FILE_UNREADABLE = "file_unreadable"
    SOURCE_BLOCKED = "source_blocked"
    SOURCE_REFUSED = "source_refused"
    NAME_NOT_FOUND = "name_not_found"
    CONNECT_FAILED = "connect_failed"
    TIMEOUT = "timeout"
    TLS = "tls"
    HTTP_STATUS = "http_status"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    CONNECTION_LOST = "connection_lost"
    EMPTY = "empty"
    NOT_AUDIO = "not_audio"
    NO_AUDIO_STREAM = "no_audio_stream"
    UNSUPPORTED_CODEC = "unsupported_codec"
    LIMIT_EXCEEDED = "limit_exceeded"
    CORRUPT = "corrupt"
    DECODER_DIED = "decoder_died"
    QUARANTINED = "quarantined"
    RESOLVE_FAILED = "resolve_failed"
    NO_MATCH = "no_match"
    INTERNAL = "internal"


# The node may not open the source; no retry changes that.
REFUSALS: Final = frozenset({FailureCode.SOURCE_BLOCKED, FailureCode.SOURCE_REFUSED})
# The bytes are damaged or not supported; a retry fails again while they stay the same.
FAULTS_OF_BYTES: Final = frozenset(
    {
        FailureCode.EMPTY,
        FailureCode.NOT_AUDIO,
        FailureCode.NO_AUDIO_STREAM,
        FailureCode.UNSUPPORTED_CODEC,
        FailureCode.CORRUPT,
        FailureCode.INTERNAL,
    }
)

HTTP_STATUS_MAX: Final = 999


@dataclass(frozen=True, slots=True)
class PlayFailure:
    """The failure of a track, in words for the user.

    `message` says what happened, `hint` what to do about it; neither is empty. `http_status` is the status of a
    server's response. Raises `ValueError` for values that clients or the state file could not take, because untrusted
    decoder processes report failures as well.
    """

    code: FailureCode
    stage: Stage
    message: str
    hint: str
    http_status: int | None = None

    def __post_init__(self) -> None:
        if not (self.message and self.hint and 0 <= (self.http_status or 0) <= HTTP_STATUS_MAX):
            raise ValueError("a failure has a message and a hint, and a status of HTTP if any")


class PlayError(Exception):
    """Raised inside the node or a decoder process when a source cannot be played."""

    def __init__(self, failure: PlayFailure) -> None:
        super().__init__(f"{failure.code}: {failure.message}")
        self.failure = failure

    @classmethod
    def of(cls, code: FailureCode, stage: Stage, message: str, hint: str) -> Self:
        """The error of a failure with these fields."""
        return cls(PlayFailure(code, stage, message, hint))


ENDED_WITHOUT_AUDIO: Final = PlayFailure(
    FailureCode.EMPTY, Stage.DECODE, "The source ended before it gave any audio.", "Check that the file is complete."
)
NESTED_PLAYLIST: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.READ,
    "The entry of a playlist in a playlist is a playlist itself.",
    "Give the inner playlist instead; playlists are followed two levels deep.",
)
CIRCULAR_PLAYLIST: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.READ,
    "The playlist leads back to itself.",
    "Remove the entry that leads back to the playlist.",
)
PART_OF_PLAYLIST: Final = PlayFailure(
    FailureCode.NOT_AUDIO,
    Stage.READ,
    "A part of a file was asked for, and the source is a playlist.",
    "Leave out `startMs`, `endMs` and the `#t=` of the URI, or give one of the playlist's entries.",
)
NOT_ONE_SOUND: Final = PlayFailure(
    FailureCode.NOT_AUDIO, Stage.READ, "The source is a playlist.", "Give one of its entries: an overlay is one sound."
)
TURNED_PLAYLIST: Final = PlayFailure(
    FailureCode.NOT_AUDIO, Stage.READ, "The source was audio before and is a playlist now.", "Play it again."
)

_TOLD_CHARACTERS: Final = 300  # of an error's text


def own_error(error: Exception | None = None) -> PlayFailure:
    """The failure of a track at which the node's own code raised `error` (None: unknown). This is always a bug."""
    told = "" if error is None else f" ({type(error).__name__}: {error}"[:_TOLD_CHARACTERS] + ")"
    return PlayFailure(
        FailureCode.INTERNAL,
        Stage.DECODE,
        f"The node failed while it played this track, and ended the track{told}.",
        "Convert the track to another format; report what the node's log says.",
    )


def never_started(within_s: float, cause: str, stage: Stage) -> PlayFailure:
    """The failure of a source that gave no audio within `within_s` seconds. `cause` names its last wait."""
    return PlayFailure(
        FailureCode.TIMEOUT,
        stage,
        f"No audio came within {within_s:g} seconds: {cause}.",
        "Try again later, or raise sources.start_timeout_s.",
    )


SILENT_FOR_TOO_LONG: Final = PlayFailure(
    FailureCode.TIMEOUT,
    Stage.READ,
    "The source stopped sending audio and did not resume in time.",
    "Play the track again; if it fails again, check its server and the network.",
)
