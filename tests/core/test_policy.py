from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Literal

import pytest
import re2

from tonearm.core.errors import SourceBlocked, SourceRefused
from tonearm.core.policy import SourcePolicy
from tonearm.core.source_uri import parse_source_uri

RADIO = "http://radio.example/live/stream.mp3?token=abc"


def policy(allowed: Sequence[str] = (), blocked: Sequence[str] = (), hosts: tuple[str, ...] = ()) -> SourcePolicy:
    compile_pattern: Callable[[str], re2._Regexp] = re2.compile
    return SourcePolicy(tuple(map(compile_pattern, allowed)), tuple(map(compile_pattern, blocked)), allowed_hosts=hosts)


def is_allowed(rules: SourcePolicy, uri: str) -> bool:
    try:
        rules.admit(parse_source_uri(uri).absolute("/srv"))
    except SourceBlocked:
        return False
    return True


def test_patterns() -> None:
    for allowed, blocked, uri, passes in (
        ([], [], RADIO, True),
        # blocked: in the host and in the whole normalised URI
        ([], [r"^radio\.example$"], RADIO, False),
        ([], [r"^127\.0\.0\.1$"], "http://0x7f.1/", False),
        ([], ["token="], RADIO, False),
        ([], ["secret"], "http://radio.example/%73ecret", False),
        ([], ["#part"], "http://radio.example/a#part", False),
        ([], [r"^file:///etc/"], "/music/../etc/passwd", False),
        ([], [r"^file:///srv/"], "music/a.mp3", False),
        # allowed: in the host and in the URI without query and fragment
        ([r"^radio\.example$"], [], RADIO, True),
        ([r"^http://radio\.example/live/"], [], RADIO, True),
        ([r"^radio\.example$"], [], "http://evil.example/?radio.example", False),
        (["radio"], [], "http://evil.example/#radio", False),
        ([r"^radio\.example$"], [], "/music/a.mp3", False),
        (["^file:///music/"], [], "/music/a.mp3", True),
        # blocked wins
        (["radio"], [r"\.mp3"], RADIO, False),
        # one of several is enough
        (["nothing", "radio"], ["none", "at all"], RADIO, True),
        ([], ["none", "stream"], RADIO, False),
    ):
        assert is_allowed(policy(allowed, blocked), uri) is passes, (allowed, blocked, uri)


def test_allowed_hosts() -> None:
    for hosts, passing, refused in (
        (
            ("example.com",),
            # Names of hosts say nothing about files.
            ["http://example.com/a.mp3", "https://EXAMPLE.com.:8443/", "/music/a.mp3"],
            # What a pattern for the name would also let in.
            ["http://evil.example/example.com", "http://example.com.evil.example/", "http://radio.example.com/"],
        ),
        ((".example.com",), ["http://radio.example.com/", "http://example.com/"], ["http://notexample.com/"]),
        (("127.0.0.1", ".two.example"), ["http://0x7f.1/", "http://x.two.example/"], ["http://127.0.0.2/"]),
    ):
        rules = policy(hosts=hosts)
        assert [uri for uri in passing + refused if is_allowed(rules, uri)] == passing


def test_hosts_and_patterns_together() -> None:
    rules = policy(["^http://other/music/"], ["secret"], ("example.com",))
    uris = "http://example.com/x", "http://other/music/x", "http://example.com/secret", "http://other/x"
    assert [is_allowed(rules, uri) for uri in uris] == [True, True, False, False]


def test_the_message_names_the_key() -> None:
    with pytest.raises(SourceBlocked, match=r"sources\.blocked"):
        policy(blocked=["radio"]).admit(parse_source_uri(RADIO))
    with pytest.raises(SourceBlocked, match=r"sources\.allowed"):
        policy(allowed=["other"]).admit(parse_source_uri(RADIO))


def test_files() -> None:
    rows: list[tuple[Literal["auto"] | bool | tuple[str, ...], bool, bool, bool]] = [
        ("auto", True, False, True),
        ("auto", True, True, False),
        ("auto", False, False, False),
        (True, False, True, True),
        (False, True, False, False),
        (("/music",), False, True, True),
    ]
    for files, listens_on_loopback_only, came_through_proxy, allows in rows:
        rules = SourcePolicy((), (), files, listens_on_loopback_only, came_through_proxy=came_through_proxy)
        rules.admit(parse_source_uri(RADIO))
        with nullcontext() if allows else pytest.raises(SourceRefused, match=r"sources\.files"):
            rules.admit(parse_source_uri("/music/a.mp3"))
