"""What is made of a resolving process's answer, an honest and a hostile one."""

import re
import time
from typing import Any

import pytest

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.policy import SourcePolicy
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track_info import PageFacts
from tonearm.sources.resolver.answers import ResolvedPage, hint_of, plain_reason, read_list, read_page, resolve_problem

LINK = "http://media.example/a.mp3"


def read(**page: Any) -> ResolvedPage:
    return read_page({"page": {"url": LINK, **page}}, SourcePolicy().admit)


def test_everything_that_a_page_tells() -> None:
    cover = "http://page.example/a.png"
    headers = [["Referer", "http://page.example/"]]
    page = read(headers=headers, title=" a\x00b\ud800\n c ", author="x" * 10_000, length_s=12.5, artwork_url=cover)
    assert (page.link.uri.opened, page.link.headers) == (LINK, {"Referer": "http://page.example/"})
    assert page.facts == PageFacts(LINK, "a b c", "x" * 500, 12_500, cover)
    assert read(length_s=5, is_live=True).facts == PageFacts(LINK, is_live=True)


def test_a_list_counts_no_more_than_there_can_be() -> None:
    page = SourcePolicy().admit(parse_source_uri("http://page.example/list"))
    entries: list[Any] = [{"url": LINK}, {"item": 10**30}, {"item": 2}]
    for count in (10**30, -5, True, 10**9 + 1, None, "many"):
        listed = read_list({"list": {"entries": entries, "count": count}}, page, SourcePolicy().admit, 100)
        assert [entry.uri.normalised for entry in listed.entries] == [LINK, "http://page.example/list#item=2"]
        assert listed.left_out.count == 1


def refusal(answer: Any, policy: SourcePolicy = SourcePolicy()) -> FailureCode:  # noqa: B008
    with pytest.raises(PlayError) as caught:
        read_page(answer, policy.admit)
    assert caught.value.failure.stage is Stage.RESOLVE
    return caught.value.failure.code


def test_what_is_no_answer_or_no_link() -> None:
    answers: tuple[Any, ...] = ({}, {"page": None}, {"page": []}, {"page": {}}, {"page": {"url": 5}}, [], "x", None)
    links = ["/etc/passwd", "file:///etc/passwd", "rtmp://a/x", "data:audio/mpeg,x", "", "http://", "javascript:1"]
    links += ["http://user:pass@a.example/x", "http://a.example/" + "x" * 5000, "http://a.example/\r\nx"]
    for answer in (*answers, *({"page": {"url": url}} for url in links)):
        assert refusal(answer) is FailureCode.RESOLVE_FAILED, answer
    blocked = SourcePolicy(blocked=[re.compile("media")])
    assert refusal({"page": {"url": LINK}}, blocked) is FailureCode.SOURCE_BLOCKED


NO_TEXTS: tuple[Any, ...] = (5, None, True, [], {"a": 1}, "", " \n", "\ud800", "\x00")
NONSENSE: dict[str, tuple[Any, ...]] = {
    "title": NO_TEXTS,
    "author": NO_TEXTS,
    "length_s": (-1, 0, True, "5", None, 1e300, 10**400, float("nan"), float("inf"), []),
    "artwork_url": (5, None, "", "a.png", "file:///a.png", "javascript:1", "http://a/" + "x" * 3000),
    "headers": (None, {}, "x", [5], [["a"]], [["a", 5]], [[None, "x"]], [["Host", "x"]]),
}


def test_what_is_no_such_thing_is_left_out() -> None:
    for field, values in NONSENSE.items():
        for value in values:
            page = read(**{field: value})
            assert (page.facts, page.link.headers) == (PageFacts(LINK), {}), (field, value)


# What users read when a page is not resolved.
PLAIN = {
    "\x1b[0;31mERROR:\x1b[0m [youtube] abc: Video unavailable": "abc: Video unavailable",
    "No data; please report this issue on  https://github.com/x/issues?q= , filling out a form": "No data",
    "HTTP Error 404: Not Found (caused by <HTTPError 404: Not Found>)": "HTTP Error 404: Not Found",
    "It broke\nTraceback (most recent call last):\n  File x": "It broke",
    "Sign in to confirm. Use --cookies-from-browser or --cookies for the authentication": "Sign in to confirm",
    "It is no longer supported.\n       DO NOT open issues for it": "It is no longer supported",
    "Not in your country\nYou might want to use a VPN or a proxy server (with --proxy)": "Not in your country",
    "two\r\nlines\x00and\u202emore": "two lines and more",
    "\x1b[31m": "yt-dlp gave no reason",
    "x" * 1_000_000: "x" * 299 + "…",
}
# What helps against a reason.
HINTS = {
    "Video unavailable": "in a browser",
    "Sign in to confirm you're not a bot. Use --cookies for the authentication": "takes this machine for a bot",
    "Sign in to confirm your age. This video may be inappropriate. Use --cookies": "who are signed in",
    "The uploader has not made this video available in your country": "resolver.proxies",
    "Unable to download API page: HTTP Error 429: Too Many Requests": "too often",
    "This video is DRM protected": "at another site",
    "This live event will begin in 8 minutes.": "when it has begun",
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
