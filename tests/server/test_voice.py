"""The paths of voices, and what they say and do not say, before voices that connect to nothing."""

import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.edge import StillNode, running_edge, still_node
from tests.support.http_client import request, send_json
from tests.support.saved import state_out
from tests.support.stand_in_voices import StandInVoices
from tonearm.core.metadata import Json, JsonObject
from tonearm.core.voice import VoiceCredentials, VoicePhase
from tonearm.description.voice import EXAMPLE

VOICE = "/v0/players/p/voice"
SECRETS = {"token": "SECRET-token", "sessionId": "SECRET-session"}
BODY: JsonObject = {**EXAMPLE, **SECRETS}
PLACE: JsonObject = {name: EXAMPLE[name] for name in ("channelId", "guildId", "userId")}


@pytest.fixture
def voices() -> StandInVoices:
    return StandInVoices()


@pytest_asyncio.fixture
async def node(voices: StandInVoices) -> AsyncIterator[StillNode]:
    async with still_node(voice=voices) as node:
        yield node
    assert voices.is_stopped


async def put(port: int, body: Json) -> tuple[int, str, str]:
    answer = await send_json(port, "PUT", VOICE, body)
    error = answer.json() if answer.status != 204 else {"code": "", "message": ""}
    return answer.status, error["code"], error["message"]


async def shown(port: int, query: str = "") -> JsonObject:
    answer = await request(port, "GET", VOICE + query)
    assert answer.status == 200
    body: JsonObject = answer.json()
    return body


async def test_a_voice_from_put_to_delete(port: int, voices: StandInVoices) -> None:
    assert await shown(port) == {"state": "none"}
    assert (await request(port, "DELETE", VOICE)).status == 204
    body = {**BODY, "endpoint": "wss://us-east1.discord.media/", "bitrate": 64_000}
    assert await put(port, body) == (204, "", "")
    assert voices.credentials["p"] == VoiceCredentials("SECRET-token", "SECRET-session")
    assert voices.of["p"].status.target.bitrate_bps == 64_000
    first = await shown(port)
    assert (first["state"], first["endpoint"]) == ("connecting", "us-east1.discord.media:443")
    assert PLACE.items() <= first.items()
    voices.of["p"].becomes(VoicePhase.CONNECTED, ssrc=7, mode="aead_aes256_gcm_rtpsize", ping_ms=20)
    assert (await shown(port, "?wait=10000"))["state"] == "connected"
    state = (await request(port, "GET", "/v0/players/p")).json()
    assert state["voice"] == await shown(port) == (await request(port, "GET", "/v0/players")).json()[0]["voice"]
    assert (await request(port, "DELETE", VOICE)).status == 204
    assert await shown(port, "?wait=10000") == {"state": "none"}
    assert (await request(port, "GET", "/v0/players/p")).json()["voice"] is None


async def test_a_wait_ends_when_the_voice_is_settled_or_the_time_is_over(port: int, voices: StandInVoices) -> None:
    await put(port, BODY)
    assert (await shown(port, "?wait=1"))["state"] == "connecting"
    await put(port, {**BODY, "endpoint": None})
    close = (await shown(port, "?wait=10000"))["close"]
    assert close == {"code": None, "reason": "endpoint_gone", "by": "bot", "action": "wait"}
    for wrong in ("-1", "10001", "x"):
        assert (await request(port, "GET", f"{VOICE}?wait={wrong}")).status == 400


async def test_a_wrong_field_is_named_and_its_value_is_not(port: int) -> None:
    wrong: dict[str, tuple[Json, ...]] = {
        **dict.fromkeys(("token", "sessionId"), ("", "S" * 1025)),
        **dict.fromkeys(("channelId", "guildId", "userId"), ("", "0", "x", "-1", str(2**64))),
        "endpoint": ("", "a/b", "a:0", "a:99999", "u@a:1", "ws://a:1", "a:1?x=1"),
        "bitrate": (7_999, 510_001, 64_000.5),
    }
    for field, value in ((field, value) for field, values in wrong.items() for value in values):
        status, code, message = await put(port, {**BODY, field: value})
        assert (status, code, field in message, "SECRET" in message) == (400, "bad_request", True, False)
        assert not isinstance(value, str) or len(value) < 4 or value not in message


async def test_refusals_of_the_voices(port: int, node: StillNode) -> None:
    status, code, message = await put(port, {**BODY, "endpoint": "evil.example:443"})
    assert (status, code) == (403, "endpoint_blocked")
    assert "voice.endpoints" in message
    await put(port, BODY)
    new = {"id": "other", "idle": True, "voice": BODY}
    answer = await send_json(port, "POST", "/v0/players", new)
    assert (answer.status, answer.json()["code"]) == (409, "voice_taken")
    assert "'p'" in answer.json()["message"]
    assert node.find("other") is None
    answer = await send_json(port, "POST", "/v0/players", {**new, "voice": {**BODY, "guildId": "x"}})
    assert (answer.status, answer.json()["code"]) == (400, "bad_request")
    assert "`voice.guildId`" in answer.json()["message"]


async def test_a_node_without_voice_says_why() -> None:
    async with still_node() as node, running_edge(node) as port:
        assert (await put(port, BODY))[:2] == (400, "voice_disabled")
        assert await shown(port, "?wait=100") == {"state": "none"}
        assert (await request(port, "DELETE", VOICE)).status == 204
        answer = await send_json(port, "POST", "/v0/players", {"id": "new", "idle": True, "voice": BODY})
        assert (answer.status, answer.json()["code"]) == (400, "voice_disabled")
        assert node.find("new") is None


async def test_token_and_session_are_nowhere(
    port: int, node: StillNode, voices: StandInVoices, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = []
    await put(port, BODY)
    await send_json(port, "PUT", VOICE, {**BODY, "SECRET-name": 1, "guildId": "SECRET"})
    node.fails["create_player"] = RuntimeError("a fault")
    new = {"id": "new", "idle": True, "voice": BODY}
    said.append((await send_json(port, "POST", "/v0/players", new)).body.decode())
    del node.fails["create_player"]
    paths = (VOICE, "/v0/players", "/v0/players/p", "/v0/players/p/state", "/v0/state", "/v0/stats", "/metrics")
    said += [(await request(port, "GET", path)).body.decode() for path in paths]
    said += [caplog.text, repr(node.player("p").status()), repr(voices.credentials)]
    assert "SECRET-token" not in "".join(said)
    assert "SECRET-session" not in "".join(said)


async def test_what_is_saved_of_a_voice_is_where_it_was(node: StillNode, voices: StandInVoices, port: int) -> None:
    await put(port, BODY)
    voices.of["p"].becomes(VoicePhase.CONNECTED)
    record = node.player("p").snapshot()
    assert record.companions == {"voice": PLACE}
    body = state_out(record, 5)
    for saved, state in ((body, "closed"), ({**body, "companions": {"voice": {"channelId": "x"}}}, "none")):
        answer = await send_json(port, "PUT", "/v0/players/again/state", saved)
        assert answer.status in (200, 201)
        again = (await request(port, "GET", "/v0/players/again/voice")).json()
        assert again["state"] == state
        if state == "closed":
            assert again["close"] == {"code": None, "reason": "restarted", "by": "node", "action": "rejoin"}
            assert (again["channelId"], again["endpoint"]) == (EXAMPLE["channelId"], None)
    await send_json(port, "PUT", "/v0/players/again/state", body)
    await request(port, "DELETE", "/v0/players/again/voice")
    assert (await request(port, "GET", "/v0/players/again/voice")).json() == {"state": "none"}
    assert node.player("again").snapshot().companions == {}
