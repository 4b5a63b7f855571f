"""Who may use the dashboard's page, as tables."""

from base64 import b64encode

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from tonearm.core.source_uri import is_loopback
from tonearm.dashboard.page_server import Visitors


def test_the_key_is_taken_once() -> None:
    visitors = Visitors()
    assert not visitors.takes_key("")
    assert not visitors.takes_key(visitors.first_key[:-1])
    assert visitors.takes_key(visitors.first_key)
    assert not visitors.takes_key(visitors.first_key)
    assert visitors.knows(visitors.cookie)
    assert not visitors.knows(visitors.first_key)
    assert not visitors.knows(None)


def test_the_cookies_of_two_pages_at_one_name_differ_in_name() -> None:
    """Browsers send a cookie to all ports of a host, also to where `ssh -L` leads them."""
    names = [Visitors().cookie_name(host) for host in ("localhost:2334", "localhost:2335", "localhost", "[::1]:2334")]
    assert names == ["tonearm-2334", "tonearm-2335", "tonearm-80", "tonearm-2334"]


def test_keys_are_long_and_differ() -> None:
    one, other = Visitors(), Visitors()
    keys = {key for made in (one, other) for key in (made.first_key, made.cookie, made.stream_key)}
    assert len(keys) == 6
    assert all(len(bytes.fromhex(key)) * 8 == 128 for key in keys)


def headers(*hosts: str, **more: str) -> CIMultiDictProxy[str]:
    named = [(name.replace("_", "-"), value) for name, value in more.items()]
    return CIMultiDictProxy(CIMultiDict([*(("Host", host) for host in hosts), *named]))


OPEN = Visitors()
GUARDED = Visitors("attic.example", "sesame")
NAMED = Visitors(names=("Radio.example", "radio.example:8443"))
PASSED_ON = {"X_Forwarded_For": "203.0.113.7"}


@pytest.mark.parametrize(
    ("visitors", "sent", "is_own"),
    [
        (OPEN, headers("localhost:2334"), True),
        (OPEN, headers("LOCALHOST"), True),
        (OPEN, headers("127.0.0.1:9999"), True),
        (OPEN, headers("[::1]:2334"), True),
        (OPEN, headers(), False),
        (OPEN, headers("localhost", "localhost"), False),
        (OPEN, headers("evil.example:2334"), False),
        (OPEN, headers("localhost.evil.example"), False),
        (OPEN, headers("192.0.2.7:2334"), False),
        (OPEN, headers("localhost:2334@evil.example"), False),
        (OPEN, headers("radio.example", **PASSED_ON), False),
        (OPEN, headers("radio.example", X_Forwarded_Host="radio.example"), False),
        (GUARDED, headers("attic.example:2334"), True),
        (GUARDED, headers("192.0.2.7"), True),
        (GUARDED, headers("evil.example"), False),
        (GUARDED, headers("radio.example", **PASSED_ON), True),
        (GUARDED, headers("radio.example", "radio.example", **PASSED_ON), False),
        (NAMED, headers("radio.example"), True),
        (NAMED, headers("RADIO.example:8443"), True),
        (NAMED, headers("radio.example:8444"), False),
        (NAMED, headers("localhost:2334"), True),
        (NAMED, headers("other.example", **PASSED_ON), False),
    ],
)
def test_only_its_own_names_and_those_of_its_proxy_are_taken(
    visitors: Visitors, sent: CIMultiDictProxy[str], is_own: bool
) -> None:
    assert visitors.is_own_name(sent) == is_own


@pytest.mark.parametrize(
    ("visitors", "sent", "is_own"),
    [
        (OPEN, headers("localhost:2334"), True),
        (OPEN, headers("localhost:2334", Sec_Fetch_Site="none"), True),
        (OPEN, headers("localhost:2334", Origin="http://LOCALHOST:2334", Sec_Fetch_Site="same-origin"), True),
        (OPEN, headers("localhost:2334", Origin="http://localhost:2335", Sec_Fetch_Site="same-site"), False),
        (OPEN, headers("localhost:2334", Origin="http://localhost:2335"), False),
        (OPEN, headers("localhost:2334", Origin="https://localhost:2334"), False),
        (OPEN, headers("localhost:2334", Origin="https://localhost:2334", **PASSED_ON), False),
        (OPEN, headers("localhost:2334", Origin="null", Sec_Fetch_Site="cross-site"), False),
        (OPEN, headers("localhost:2334", Sec_Fetch_Site="cross-site"), False),
        (OPEN, headers("localhost:2334", Sec_Fetch_Site="same-site"), False),
        (GUARDED, headers("radio.example", Origin="https://radio.example", **PASSED_ON), True),
        (GUARDED, headers("127.0.0.1:2334", Origin="https://radio.example", X_Forwarded_Host="radio.example"), True),
        (GUARDED, headers("radio.example", Origin="https://evil.example", **PASSED_ON), False),
        (GUARDED, headers("radio.example", Origin="https://radio.example:8443", **PASSED_ON), False),
        (GUARDED, headers("attic.example", Origin="https://attic.example"), False),
        (NAMED, headers("radio.example", Origin="https://radio.example"), True),
        (NAMED, headers("127.0.0.1:2334", Origin="https://radio.example"), True),  # a proxy that puts its own Host
        (NAMED, headers("radio.example", Origin="https://radio.example:9"), False),
        (NAMED, headers("radio.example", Origin="https://evil.example"), False),
    ],
)
def test_only_its_own_page_may_ask(visitors: Visitors, sent: CIMultiDictProxy[str], is_own: bool) -> None:
    assert visitors.is_own_page(sent, needs_origin=True) == is_own


@pytest.mark.parametrize(
    ("header", "is_taken"),
    [
        ("Basic " + b64encode(b"anna:sesame").decode(), True),
        ("basic " + b64encode(b":sesame").decode(), True),
        ("Basic " + b64encode(b"sesame").decode(), False),
        ("Basic " + b64encode(b"anna:other").decode(), False),
        ("Basic \xff", False),
        ("Bearer sesame", False),
        ("", False),
    ],
)
def test_its_own_password_is_asked_for_as_browsers_do(header: str, is_taken: bool) -> None:
    assert Visitors("0.0.0.0", "sesame").takes_password(header) == is_taken
    assert not Visitors().takes_password(header)


def test_its_own_password_is_not_guessed_by_trying() -> None:
    now_s = 0.0
    visitors = Visitors("0.0.0.0", "sesame", lambda: now_s)
    tried = 0
    while not visitors.wait_s("192.0.2.7"):
        tried += 1
    assert tried == 10
    assert 0 < visitors.wait_s("192.0.2.7") <= 6
    assert not visitors.wait_s("192.0.2.8")
    now_s = 6.0
    assert [not visitors.wait_s("192.0.2.7") for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("host", "is_it"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)],
)
def test_loopback_is_known(host: str, is_it: bool) -> None:
    assert is_loopback(host) == is_it
