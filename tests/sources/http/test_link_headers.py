"""Headers that a link needs: which are sent, and where to."""

from tonearm.core.source_uri import parse_source_uri
from tonearm.sources.http.settings import PageLink, safe_headers


def test_what_is_never_taken_over() -> None:
    names = ("Host", "AUTHORIZATION", "Range", "If-Range", "Content-Length", "Transfer-Encoding", "Connection", "TE")
    others = ("Accept-Encoding", "Proxy-Authorization", "Upgrade", "X-Forwarded-For", "bad name", "bad:name", "näme")
    for name in names + others:
        assert safe_headers([(name, "x")]) == {}
    for value in ("a\r\nHost: b", "a\nb", "a\x00b", "ä", "x" * 5000):
        assert safe_headers([("Referer", value), ("Cookie", "a=b")]) == {"Cookie": "a=b"}


def test_a_name_counts_once_and_there_is_an_end() -> None:
    assert safe_headers([("Referer", " a "), ("REFERER", "b")]) == {"Referer": "a"}
    assert len(safe_headers((f"X-{number}", "x") for number in range(1000))) == 32


def test_they_stay_with_the_host_they_were_given_for() -> None:
    for link, uri, is_sent in (
        ("http://a.example/x", "http://A.example.:80/y?z", True),
        ("http://a.example/x", "https://a.example/x", True),
        ("http://a.example:8080/x", "https://a.example:8080/x", True),
        ("https://a.example/x", "http://a.example/x", False),
        ("https://a.example:8443/x", "http://a.example:8443/x", False),
        ("http://a.example/x", "http://b.a.example/x", False),
        ("http://a.example/x", "http://a.example:81/x", False),
        ("http://a.example:81/x", "https://a.example/x", False),
    ):
        headers = PageLink(parse_source_uri(link), {"Cookie": "secret"})
        assert headers.headers_for(parse_source_uri(uri)) == ({"Cookie": "secret"} if is_sent else {})
        assert "secret" not in repr(headers)
