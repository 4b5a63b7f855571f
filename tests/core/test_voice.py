"""Endpoints, hosts, ids, and what each end of a connection means: the tables of docs/voice.md."""

import logging
import re

import pytest

from tests.support.readme import REPOSITORY
from tonearm.core.errors import BadRequest
from tonearm.core.voice import (
    CLOSES,
    ClosedBy,
    DaveStatus,
    NodeReason,
    VoiceCredentials,
    VoiceEndpoint,
    VoicePhase,
    VoiceStatus,
    VoiceTarget,
    closed_for,
    host_pattern,
    is_admitted,
    parse_endpoint,
    parse_id,
)

ENDPOINTS = {
    "wss://c-fra07-1a2b3c.discord.media:2087/": VoiceEndpoint("c-fra07-1a2b3c.discord.media", 2087),
    "WSS://Rotterdam1.Discord.Media.:2053": VoiceEndpoint("rotterdam1.discord.media", 2053),
    "smart.loyal.discord.gg": VoiceEndpoint("smart.loyal.discord.gg", 443),
    "0x7f.1:8443": VoiceEndpoint("127.0.0.1", 8443),
    "[::1]:8443": VoiceEndpoint("::1", 8443),
}


def test_an_endpoint_is_host_and_port() -> None:
    assert {text: parse_endpoint(text) for text in ENDPOINTS} == ENDPOINTS
    assert all(parse_endpoint(str(endpoint)) == endpoint for endpoint in ENDPOINTS.values())


def test_anything_else_is_no_endpoint_and_is_not_repeated() -> None:
    for text in (
        *("", ":443", "wss://", "a.discord.media:", "a.discord.media:0", "a.discord.media:65536", "a.discord.media:+1"),
        *("a.discord.media:443/x", "a.discord.media:443?v=8", "a.discord.media:443#x", "me:pw@a.discord.media:443"),
        *("ws://a.discord.media:443", "https://a.discord.media", "wss://wss://a:1", "a b:443", "a\n:443", "::1:443"),
        *("[::1:443", "a..b:443", "a\x00b:443", "a%2eb:443", "a\\b:443", "256.0.0.1:443", "x" * 5000 + ":1", "a:٣"),
    ):
        with pytest.raises(BadRequest) as caught:
            parse_endpoint(text)
        assert caught.value.message.startswith('"endpoint"')
        assert len(text) < 9 or text not in caught.value.message


def test_which_hosts_a_pattern_admits() -> None:
    for pattern, admitted, others in (
        ("*.Discord.media", ["a.b.discord.media"], ["discord.media", "evildiscord.media", "a.discord.media.test"]),
        ("127.0.0.1", ["127.0.0.1"], ["127.0.0.2"]),
        ("[::1]", ["::1"], []),
    ):
        patterns = (host_pattern(pattern),)
        assert [host for host in admitted + others if is_admitted(host, patterns)] == admitted
    assert not is_admitted("a", ())


def test_what_is_no_pattern_of_hosts() -> None:
    for text in (
        "",
        "*",
        "*.",
        "*.*.media",
        "a.*.media",
        "wss://a",
        "a:443",
        "a/",
        "*.127.0.0.1",
        "*.[::1]",
        "a b",
        "*a",
    ):
        with pytest.raises(ValueError, match=r"must hold hosts"):
            host_pattern(text)


def test_ids_are_decimal() -> None:
    assert [parse_id(text) for text in ("1", "18446744073709551615")] == [1, 2**64 - 1]
    for text in ("", "0", "18446744073709551616", "-1", "+1", "01", " 1", "1.0", "1e3", "٣", "9" * 999):
        assert parse_id(text) is None, text


def test_credentials_show_nothing(caplog: pytest.LogCaptureFixture) -> None:
    credentials = VoiceCredentials("secret-token", "secret-session")
    logging.getLogger(__name__).warning("%s %r %s", credentials, credentials, (credentials,))
    assert "secret" not in f"{caplog.text}{credentials}{credentials!r}{[credentials]}"
    assert credentials == VoiceCredentials("secret-token", "secret-session")  # the same values again change nothing
    assert credentials != VoiceCredentials("secret-token", "another")


def test_when_a_voice_is_a_listener_and_when_sound_can_flow() -> None:
    for phase, dave, sounds, can_flow in (
        (VoicePhase.CONNECTING, DaveStatus(), False, False),
        (VoicePhase.CONNECTED, DaveStatus(), True, True),
        (VoicePhase.CONNECTED, DaveStatus(1), True, False),
        (VoicePhase.CONNECTED, DaveStatus(1, ready=True), True, True),
        (VoicePhase.RESUMING, DaveStatus(1, ready=True), True, True),
        (VoicePhase.CLOSED, DaveStatus(1, ready=True), False, False),
    ):
        status = VoiceStatus(phase, VoiceTarget(1, 2, 3, VoiceEndpoint("a", 443)), 0, dave=dave)
        assert (status.sounds, status.can_flow) == (sounds, can_flow), (phase, dave)


def test_the_document_for_bots_says_the_same() -> None:
    """Each code and each reason stands in one row of docs/voice.md, with its action."""
    text = (
        (REPOSITORY / "docs" / "voice.md").read_text(encoding="utf-8").split("| Code or reason |")[1].split("\n\n")[0]
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    said: dict[str, str] = {}
    for causes, _, action in rows:
        for first, last in re.findall(r"(\d{4}) to (\d{4})", causes):
            said |= dict.fromkeys(map(str, range(int(first), int(last) + 1)), action.strip("`"))
        said |= dict.fromkeys(re.findall(r"\d{4}|[a-z]+(?:_[a-z]+)*(?=`)", causes), action.strip("`"))
    expected = {str(code): rule.action.value for code, rule in CLOSES.items()}
    assert said == expected | {reason.value: closed_for(reason).action.value for reason in NodeReason}
    assert closed_for(NodeReason.ENDPOINT_GONE).by is ClosedBy.BOT
