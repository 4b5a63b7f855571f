"""Headers that a link needs: which are sent, and where to."""

import pytest

from tonearm.core.source_uri import parse_source_uri
from tonearm.sources.http.settings import PageLink, safe_headers


@pytest.mark.parametrize(
    "name",
    ["Host", "AUTHORIZATION", "Range", "If-Range", "Content-Length", "Transfer-Encoding", "Connection", "TE",
     "Accept-Encoding", "Proxy-Authorization", "Upgrade", "X-Forwarded-For", "bad name", "bad:name", "", "näme"],
)  # fmt: skip
def test_headers_that_are_never_taken_over(name: str) -> None:
    assert safe_headers([(name, "x")]) == {}


@pytest.mark.parametrize("value", ["a\r\nHost: b", "a\nb", "a\x00b", "ä", "x" * 5000])
def test_values_that_are_never_taken_over(value: str) -> None:
    assert safe_headers([("Referer", value), ("Cookie", "a=b")]) == {"Cookie": "a=b"}


def test_a_name_counts_once_and_there_is_an_end() -> None:
    assert safe_headers([("Referer", " a "), ("REFERER", "b")]) == {"Referer": "a"}
    assert len(safe_headers((f"X-{number}", "x") for number in range(1000))) == 32


@pytest.mark.parametrize(
    ("link", "uri", "is_sent"),
    [
        ("http://a.example/x", "http://a.example/y?z", True),
        ("http://a.example/x", "http://A.example.:80/y", True),
        ("http://a.example/x", "https://a.example/x", True),
        ("http://a.example:8080/x", "https://a.example:8080/x", True),
        ("https://a.example/x", "https://a.example/y", True),
        ("https://a.example/x", "http://a.example/x", False),
        ("https://a.example:8443/x", "http://a.example:8443/x", False),
        ("http://a.example/x", "http://b.example/x", False),
        ("http://a.example/x", "http://b.a.example/x", False),
        ("http://a.example/x", "http://a.example:81/x", False),
        ("http://a.example:81/x", "https://a.example/x", False),
    ],
)
def test_they_stay_with_the_host_they_were_given_for(link: str, uri: str, is_sent: bool) -> None:
    headers = PageLink(parse_source_uri(link), {"Cookie": "secret"})
    assert headers.headers_for(parse_source_uri(uri)) == ({"Cookie": "secret"} if is_sent else {})
    assert "secret" not in repr(headers)
