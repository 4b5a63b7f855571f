"""Who may use the dashboard's page, as tables."""

from base64 import b64encode

import pytest

from tonearm.core.source_uri import is_loopback
from tonearm.dashboard.page_server import Visitors, is_own_page


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


@pytest.mark.parametrize(
    ("hosts", "is_own"),
    [
        (["localhost:2334"], True),
        (["LOCALHOST"], True),
        (["127.0.0.1:9999"], True),
        (["[::1]:2334"], True),
        ([], False),
        (["localhost", "localhost"], False),
        (["evil.example:2334"], False),
        (["localhost.evil.example"], False),
        (["192.0.2.7:2334"], False),
        (["localhost:2334@evil.example"], False),
    ],
)
def test_only_names_of_this_machine_are_its_own(hosts: list[str], is_own: bool) -> None:
    assert Visitors().is_own_name(hosts) == is_own


@pytest.mark.parametrize(
    ("host", "is_own"), [("attic.example:2334", True), ("192.0.2.7", True), ("evil.example", False)]
)
def test_with_a_password_of_its_own_it_is_reached_by_its_address(host: str, is_own: bool) -> None:
    assert Visitors("attic.example", "sesame").is_own_name([host]) == is_own


@pytest.mark.parametrize(
    ("origin", "site", "is_own"),
    [
        (None, None, True),
        (None, "none", True),
        ("http://localhost:2334", "same-origin", True),
        ("http://localhost:2335", "same-site", False),
        ("http://localhost:2335", None, False),
        ("https://localhost:2334", None, False),
        ("null", "cross-site", False),
        (None, "cross-site", False),
        (None, "same-site", False),
    ],
)
def test_only_its_own_page_may_ask(origin: str | None, site: str | None, is_own: bool) -> None:
    assert is_own_page("localhost:2334", origin, site) == is_own


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
