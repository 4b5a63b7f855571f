"""What users read when a page is not resolved."""

import time

import pytest

from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.sources.resolver.answers import hint_of, plain_reason, resolve_problem


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("\x1b[0;31mERROR:\x1b[0m [youtube] abc: Video unavailable", "abc: Video unavailable"),
        (
            "Unable to extract data; please report this issue on  https://github.com/x/issues?q= , filling out a form",
            "Unable to extract data",
        ),
        ("HTTP Error 404: Not Found (caused by <HTTPError 404: Not Found>)", "HTTP Error 404: Not Found"),
        ("It broke\nTraceback (most recent call last):\n  File x", "It broke"),
        ("Sign in to confirm. Use --cookies-from-browser or --cookies for the authentication", "Sign in to confirm"),
        ("It uses DRM. It will \x1b[0;31mNOT\x1b[0m be supported.\n       Please DO NOT open an issue", "It uses DRM"),
        (
            "This website is no longer supported.\n       DO NOT open issues for it",
            "This website is no longer supported",
        ),
        ("Not in your country\nYou might want to use a VPN or a proxy server (with --proxy)", "Not in your country"),
        ("Try again later. It is recommended to use `-t sleep` to add a delay", "Try again later"),
        ("two\r\nlines\x00and\u202emore", "two lines and more"),
        ("", "yt-dlp gave no reason"),
        ("\x1b[31m", "yt-dlp gave no reason"),
    ],
)
def test_reasons_are_plain(given: str, plain: str) -> None:
    assert plain_reason(given) == plain


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("Sign in to confirm you're not a bot. Use --cookies for the authentication", "takes this machine for a bot"),
        ("Sign in to confirm your age. This video may be inappropriate. Use --cookies", "who are signed in"),
        ("Private video. Sign in if you've been granted access to this video", "who are signed in"),
        ("The uploader has not made this video available in your country", "resolver.proxies"),
        ("This video is not available from your location due to geo restriction", "resolver.proxies"),
        ("Unable to download API page: HTTP Error 429: Too Many Requests", "too often"),
        ("NSFW tweet requires authentication. Use --cookies", "who are signed in"),
        ("Join this channel to get access to members-only content like this video", "who are signed in"),
        ("This video is DRM protected", "at another site"),
        ("This live event will begin in 8 minutes.", "when it has begun"),
        ("Premieres in 3 hours", "when it has begun"),
        ("Video unavailable", "in a browser"),
    ],
)
def test_a_hint_says_what_helps_against_the_reason(reason: str, told: str) -> None:
    assert told in hint_of(reason)


def test_a_reason_is_short() -> None:
    assert len(plain_reason("x" * 1_000_000)) == 300


def test_blanks_in_a_reason_take_no_time_to_speak_of() -> None:
    begun_s = time.process_time()
    for _ in range(100):
        assert plain_reason("HTTP Error 404: It" + " " * 3900 + "is gone") == "HTTP Error 404: It is gone"
    assert time.process_time() - begun_s < 10


def test_a_refusal_stays_one_and_anything_else_is_a_failed_resolve() -> None:
    refused = resolve_problem(PlayFailure(FailureCode.SOURCE_REFUSED, Stage.CONNECT, "No.", "Set it.")).failure
    assert (refused.code, refused.stage, refused.message) == (FailureCode.SOURCE_REFUSED, Stage.RESOLVE, "No.")
    lost = resolve_problem(PlayFailure(FailureCode.CONNECT_FAILED, Stage.CONNECT, "No way to x.", "Look.")).failure
    assert (lost.code, lost.stage) == (FailureCode.RESOLVE_FAILED, Stage.RESOLVE)
    assert (lost.message, lost.hint) == ("The page was not resolved: No way to x.", "Look.")
