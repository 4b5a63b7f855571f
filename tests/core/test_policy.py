from collections.abc import Callable
from typing import Literal

import pytest
import re2

from tonearm.core.errors import RequestError, SourceBlocked, SourceRefused
from tonearm.core.policy import SourcePolicy
from tonearm.core.source_uri import parse_source_uri

RADIO = "http://radio.example/live/stream.mp3?token=abc"


def policy(allowed: list[str] | None = None, blocked: list[str] | None = None) -> SourcePolicy:
    compile_pattern: Callable[[str], re2._Regexp] = re2.compile
    return SourcePolicy(tuple(map(compile_pattern, allowed or [])), tuple(map(compile_pattern, blocked or [])))


def is_allowed(rules: SourcePolicy, uri: str) -> bool:
    try:
        rules.admit(parse_source_uri(uri).absolute("/srv"))
    except SourceBlocked:
        return False
    return True


@pytest.mark.parametrize(
    ("allowed", "blocked", "uri", "passes"),
    [
        ([], [], RADIO, True),
        ([], [], "/music/a.mp3", True),
        # blocked: in the host and in the whole normalised URI
        ([], [r"^radio\.example$"], RADIO, False),
        ([], [r"^radio\.example$"], "http://RADIO.example.:80/", False),
        ([], [r"^127\.0\.0\.1$"], "http://0x7f.1/", False),
        ([], ["token="], RADIO, False),
        ([], ["secret"], "http://radio.example/%73ecret", False),
        ([], ["#part"], "http://radio.example/a#part", False),
        ([], [r"^file:///etc/"], "/music/../etc/passwd", False),
        ([], [r"^file:///srv/"], "music/a.mp3", False),
        ([], [r"^other\.example$"], RADIO, True),
        # allowed: in the host and in the URI without query and fragment
        ([r"^radio\.example$"], [], RADIO, True),
        ([r"^http://radio\.example/live/"], [], RADIO, True),
        ([r"stream\.mp3$"], [], RADIO, True),
        ([r"^radio\.example$"], [], "http://evil.example/?radio.example", False),
        (["radio"], [], "http://evil.example/?u=radio", False),
        (["radio"], [], "http://evil.example/#radio", False),
        ([r"^radio\.example$"], [], "/music/a.mp3", False),
        (["^file:///music/"], [], "/music/a.mp3", True),
        # blocked wins
        (["radio"], [r"\.mp3"], RADIO, False),
        # one of several is enough
        (["nothing", "radio"], ["none", "at all"], RADIO, True),
        ([], ["none", "stream"], RADIO, False),
    ],
)
def test_patterns(allowed: list[str], blocked: list[str], uri: str, passes: bool) -> None:
    assert is_allowed(policy(allowed, blocked), uri) is passes


def test_the_message_names_the_key() -> None:
    with pytest.raises(SourceBlocked, match=r"sources\.blocked"):
        policy(blocked=["radio"]).admit(parse_source_uri(RADIO))
    with pytest.raises(SourceBlocked, match=r"sources\.allowed"):
        policy(allowed=["other"]).admit(parse_source_uri(RADIO))


@pytest.mark.parametrize(
    ("files", "loopback_only", "error"),
    [
        ("auto", True, None),
        ("auto", False, SourceRefused),
        (True, False, None),
        (False, True, SourceRefused),
        (("/music",), False, None),
        ((), True, SourceRefused),
    ],
)
def test_files(
    files: Literal["auto"] | bool | tuple[str, ...], loopback_only: bool, error: type[RequestError] | None
) -> None:
    rules = SourcePolicy(files=files, listens_on_loopback_only=loopback_only)
    rules.admit(parse_source_uri(RADIO))
    if error is None:
        rules.admit(parse_source_uri("/music/a.mp3"))
    else:
        with pytest.raises(error, match=r"sources\.files"):
            rules.admit(parse_source_uri("/music/a.mp3"))
