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
    page = read(
        headers=[["Referer", "http://page.example/"]],
        title="A title",
        author="An author",
        length_s=12.5,
        artwork_url="http://page.example/a.png",
        is_live=False,
    )
    assert page.link.uri.opened == LINK
    assert page.link.headers == {"Referer": "http://page.example/"}
    assert page.facts == PageFacts(LINK, "A title", "An author", 12_500, "http://page.example/a.png")


@pytest.mark.parametrize("count", [10**30, -5, True, 10**9 + 1, None, "many"])
def test_a_list_counts_no_more_than_there_can_be(count: Any) -> None:
    page = SourcePolicy().admit(parse_source_uri("http://page.example/list"))
    entries: list[Any] = [{"url": LINK}, {"item": 10**30}, {"item": 2}]
    listed = read_list({"list": {"entries": entries, "count": count}}, page, SourcePolicy().admit, 100)
    assert [entry.uri.normalised for entry in listed.entries] == [LINK, "http://page.example/list#item=2"]
    assert listed.left_out.count == 1


def test_a_live_one_has_no_length() -> None:
    assert read(length_s=5, is_live=True).facts == PageFacts(LINK, is_live=True)


def refusal(answer: Any, admit: Callable[[SourceUri], SourceUri] | None = None) -> FailureCode:
    with pytest.raises(PlayError) as caught:
        read_page(answer, admit or SourcePolicy().admit)
    assert caught.value.failure.stage is Stage.RESOLVE
    return caught.value.failure.code


@pytest.mark.parametrize(
    "answer",
    [{}, {"page": None}, {"page": []}, {"page": {}}, {"page": {"url": None}}, {"page": {"url": 5}}, [], "x", None],
)
def test_what_is_no_answer(answer: Any) -> None:
    assert refusal(answer) is FailureCode.RESOLVE_FAILED


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "/etc/passwd", "etc/passwd", "rtmp://a.example/x", "data:audio/mpeg,x", "", "http://",
     "http://user:pass@a.example/x", "http://a.example/" + "x" * 5000, "http://a.example/\r\nx", "javascript:1"],
)  # fmt: skip
def test_a_link_that_is_none(url: str) -> None:
    assert refusal({"page": {"url": url}}) is FailureCode.RESOLVE_FAILED


def test_the_patterns_are_asked_for_the_link() -> None:
    def admit(uri: SourceUri) -> SourceUri:
        raise SourceBlocked(f"{uri} is blocked.")

    assert refusal({"page": {"url": LINK}}, admit) is FailureCode.SOURCE_BLOCKED


def test_texts_are_cleaned_and_short() -> None:
    facts = read(title=" a\x00b\ud800\n c ", author="x" * 10_000).facts
    assert (facts.title, facts.author) == ("a b c", "x" * 500)


NO_TEXTS: tuple[Any, ...] = (5, None, True, [], {"a": 1}, "", " \n", "\ud800", "\x00")
NO_LENGTHS: tuple[Any, ...] = (-1, 0, True, "5", None, 1e300, 10**400, float("nan"), float("inf"), [])
NO_ARTWORK: tuple[Any, ...] = (5, None, "", "a.png", "file:///a.png", "javascript:1", "http://a/" + "x" * 3000)
NO_HEADERS: tuple[Any, ...] = (None, {}, "x", [5], [["a"]], [["a", 5]], [[None, "x"]], [["Host", "x"]])


@pytest.mark.parametrize(
    ("field", "values"),
    [
        *(("title", NO_TEXTS), ("author", NO_TEXTS), ("length_s", NO_LENGTHS)),
        *(("artwork_url", NO_ARTWORK), ("headers", NO_HEADERS)),
    ],
)
def test_what_is_no_such_thing_is_left_out(field: str, values: tuple[Any, ...]) -> None:
    for value in values:
        page = read(**{field: value})
        assert (page.facts, page.link.headers) == (PageFacts(LINK), {}), value
