"""The failures of playlists, in words for the user. Each function makes one `PlayError`, ready to raise."""

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage


def too_large(what: str) -> PlayError:
    return _error(
        FailureCode.LIMIT_EXCEEDED, f"The playlist was refused: {what}.", "Give a smaller playlist, or its entries."
    )


def nested() -> PlayError:
    return _error(
        FailureCode.LIMIT_EXCEEDED,
        "The playlist leads to another playlist of streams instead of to one stream.",
        "Give the inner playlist instead; playlists are followed one level deep.",
    )


def damaged(what: str) -> PlayError:
    return _error(FailureCode.CORRUPT, f"The playlist cannot be read: {what}.", "The playlist has to be mended.")


def encrypted(method: str) -> PlayError:
    return _error(
        FailureCode.UNSUPPORTED_CODEC,
        f"The HLS stream is encrypted ({method}); encrypted HLS is not supported.",
        "Give a stream without encryption.",
    )


def nothing_to_play(what: str) -> PlayError:
    return _error(
        FailureCode.EMPTY, f"The playlist {what}.", "Check the playlist; the node's log says what it refused."
    )


def leads_to_file() -> PlayError:
    failure = PlayFailure(
        FailureCode.SOURCE_REFUSED,
        Stage.READ,
        "A playlist from the network must not lead to anything but http and https.",
        "Put http or https URIs into the playlist.",
    )
    return PlayError(failure)


def byte_range_ignored(host: str) -> PlayError:
    message = f"{host} does not send the part of the file that the playlist names."
    return _error(FailureCode.CONNECTION_LOST, message, "The stream has to be served with range requests.")


def stands_still(seconds: float) -> PlayError:
    return _error(
        FailureCode.CONNECTION_LOST,
        f"The live stream has brought nothing new for {seconds:.0f} seconds.",
        "Try again later; the stream may be over.",
    )


def took_too_long(seconds: float) -> PlayError:
    message = f"The playlist did not arrive within {seconds:g} seconds."
    return _error(FailureCode.TIMEOUT, message, "Try again later, or check the server it comes from.")


def _error(code: FailureCode, message: str, hint: str) -> PlayError:
    return PlayError(PlayFailure(code, Stage.READ, message, hint))
