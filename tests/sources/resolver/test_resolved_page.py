"""What is made of a resolving process's answer, an honest and a hostile one."""

from collections.abc import Callable
from typing import Any

import pytest

from tonearm.core.errors import SourceBlocked
from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.policy import SourcePolicy
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.core.track_info import PageFacts
from tonearm.sources.resolver.answers import ResolvedPage, read_list, read_page

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


@pytest.mark.parametrize("count", [10**30, -5, True, 10**9 + 1, None, "many"])
def test_a_list_counts_no_more_than_there_can_be(count: Any) -> None:
    page = SourcePolicy().admit(parse_source_uri("http://page.example/list"))
    entries: list[Any] = [{"url": LINK}, {"item": 10**30}, {"item": 2}]
    listed = read_list({"list": {"entries": entries, "count": count}}, page, SourcePolicy().admit, 100)
    assert [entry.uri.normalised for entry in listed.entries] == [LINK, "http://page.example/list#item=2"]
    assert listed.left_out.count == 1


def refusal(answer: Any, admit: Callable[[SourceUri], SourceUri] | None = None) -> FailureCode:
    with pytest.raises(PlayError) as caught:
        read_page(answer, admit or SourcePolicy().admit)
    assert caught.value.failure.stage is Stage.RESOLVE
    return caught.value.failure.code


def test_what_is_no_answer_or_no_link() -> None:
    answers: tuple[Any, ...] = ({}, {"page": None}, {"page": []}, {"page": {}}, {"page": {"url": 5}}, [], "x", None)
    links = ["/etc/passwd", "file:///etc/passwd", "rtmp://a/x", "data:audio/mpeg,x", "", "http://", "javascript:1"]
    links += ["http://user:pass@a.example/x", "http://a.example/" + "x" * 5000, "http://a.example/\r\nx"]
    for answer in (*answers, *({"page": {"url": url}} for url in links)):
        assert refusal(answer) is FailureCode.RESOLVE_FAILED, answer


def test_the_patterns_are_asked_for_the_link() -> None:
    def admit(uri: SourceUri) -> SourceUri:
        raise SourceBlocked(f"{uri} is blocked.")

    assert refusal({"page": {"url": LINK}}, admit) is FailureCode.SOURCE_BLOCKED


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
