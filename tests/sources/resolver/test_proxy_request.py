"""Heads of proxy requests: what is read, and what is refused because it could be read in two ways."""

import base64

import pytest

from tonearm.sources.resolver.proxy import BadProxyRequest, parse_proxy_request

PASS = base64.b64encode(b"tonearm:secret").decode()


def head(*lines: str) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def test_a_request_to_pass_on() -> None:
    request = parse_proxy_request(
        head(
            "POST http://a.example/x?y HTTP/1.1",
            "Host: other.example",
            "Content-Length: 12",
            "X-One: a b",
            "Connection: keep-alive",
            "Proxy-Connection: keep-alive",
            f"Proxy-Authorization: Basic {PASS}",
        )
    )
    assert (request.method, request.target, request.is_tunnel) == ("POST", "http://a.example/x?y", False)
    assert (request.body_bytes, request.password) == (12, "secret")
    assert request.headers == (("Content-Length", "12"), ("X-One", "a b"))


def test_a_tunnel() -> None:
    request = parse_proxy_request(head("CONNECT a.example:443 HTTP/1.0"))
    assert (request.is_tunnel, request.target, request.password) == (True, "a.example:443", "")


@pytest.mark.parametrize("value", ["", "Basic", "Basic !!!", "Bearer secret", f"Basic {PASS}x", "secret"])
def test_passwords_that_are_none(value: str) -> None:
    request = parse_proxy_request(head("GET http://a.example/ HTTP/1.1", f"Proxy-Authorization: {value}"))
    assert request.password == ""


@pytest.mark.parametrize(
    "lines",
    [
        ("",),
        ("GET",),
        ("GET http://a.example/",),
        ("GET http://a.example/ HTTP/2.0",),
        ("get http://a.example/ HTTP/1.1",),
        ("GET http://a.example/ x HTTP/1.1",),
        ("GET http://a.example/\x00 HTTP/1.1",),
        ("GET http://a.example/ HTTP/1.1", "no colon"),
        ("GET http://a.example/ HTTP/1.1", " folded: x"),
        ("GET http://a.example/ HTTP/1.1", "Name : x"),
        ("GET http://a.example/ HTTP/1.1", "Name: a\nb"),
        ("GET http://a.example/ HTTP/1.1", "Transfer-Encoding: chunked"),
        ("GET http://a.example/ HTTP/1.1", "Content-Length: -1"),
        ("GET http://a.example/ HTTP/1.1", "Content-Length: 1", "Content-Length: 2"),
        ("GET http://a.example/ HTTP/1.1", f"Proxy-Authorization: Basic {PASS}", "Proxy-Authorization: Basic x"),
    ],
)
def test_what_is_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(BadProxyRequest):
        parse_proxy_request(head(*lines))
