"""What users read when a page is not resolved."""

import time

from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.sources.resolver.answers import hint_of, plain_reason, resolve_problem

PLAIN = {
    "\x1b[0;31mERROR:\x1b[0m [youtube] abc: Video unavailable": "abc: Video unavailable",
    "No data; please report this issue on  https://github.com/x/issues?q= , filling out a form": "No data",
    "HTTP Error 404: Not Found (caused by <HTTPError 404: Not Found>)": "HTTP Error 404: Not Found",
    "It broke\nTraceback (most recent call last):\n  File x": "It broke",
    "Sign in to confirm. Use --cookies-from-browser or --cookies for the authentication": "Sign in to confirm",
    "It uses DRM. It will \x1b[0;31mNOT\x1b[0m be supported.\n       Please DO NOT open an issue": "It uses DRM",
    "It is no longer supported.\n       DO NOT open issues for it": "It is no longer supported",
    "Not in your country\nYou might want to use a VPN or a proxy server (with --proxy)": "Not in your country",
    "Try again later. It is recommended to use `-t sleep` to add a delay": "Try again later",
    "two\r\nlines\x00and\u202emore": "two lines and more",
    "\x1b[31m": "yt-dlp gave no reason",
    "x" * 1_000_000: "x" * 299 + "…",
}
# What helps against a reason.
HINTS = {
    "Sign in to confirm you're not a bot. Use --cookies for the authentication": "takes this machine for a bot",
    "Sign in to confirm your age. This video may be inappropriate. Use --cookies": "who are signed in",
    "Private video. Sign in if you've been granted access to this video": "who are signed in",
    "The uploader has not made this video available in your country": "resolver.proxies",
    "This video is not available from your location due to geo restriction": "resolver.proxies",
    "Unable to download API page: HTTP Error 429: Too Many Requests": "too often",
    "NSFW tweet requires authentication. Use --cookies": "who are signed in",
    "Join this channel to get access to members-only content like this video": "who are signed in",
    "This video is DRM protected": "at another site",
    "This live event will begin in 8 minutes.": "when it has begun",
    "Premieres in 3 hours": "when it has begun",
    "Video unavailable": "in a browser",
}


def test_reasons_are_plain_and_hints_say_what_helps() -> None:
    for given, plain in PLAIN.items():
        assert plain_reason(given) == plain
    for reason, told in HINTS.items():
        assert told in hint_of(reason)
    for key in ("resolver.cookies_file", "resolver.extractor_args", "resolver.proxies"):
        assert key in hint_of("Sign in to confirm you're not a bot.")


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
