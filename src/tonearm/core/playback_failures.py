"""What can go wrong with a track beside its source and its decoder."""

from typing import Final

from tonearm.core.failure import FailureCode, PlayFailure, Stage

ENDED_WITHOUT_AUDIO: Final = PlayFailure(
    FailureCode.EMPTY, Stage.DECODE, "The source ended before it gave any audio.", "Check that the file is complete."
)
NESTED_PLAYLIST: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.READ,
    "The playlist's entry is a playlist itself.",
    "Give the inner playlist instead; playlists are followed one level deep.",
)
TURNED_PLAYLIST: Final = PlayFailure(
    FailureCode.NOT_AUDIO, Stage.READ, "The source was sound and is a playlist now.", "Play it again."
)
SILENT_FOR_TOO_LONG: Final = PlayFailure(
    FailureCode.TIMEOUT,
    Stage.READ,
    "The sound broke off and did not come back in time.",
    "Play the track again; if it stays so, its server or the way to it is at fault.",
)
