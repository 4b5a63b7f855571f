"""What tests say to a running node about the voice of a player, and how its node is configured."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import av

from tests.support.e2e_players import done, until_state
from tests.support.processes import children_of
from tests.support.running_node import RunningNode
from tests.support.voice_server import KEY_HEAD, VoiceServer, VoiceSession

CONFIG: Final = """
[player]
first_listener_wait_ms = 60000
[voice]
endpoints = ["127.0.0.1"]
private_networks = true
"""
TOKEN, SESSION = "the-secret-token", "the-secret-session"


def voice(server: VoiceServer, **more: object) -> dict[str, object]:
    ids = {"channelId": "2", "guildId": "1", "userId": "3"}
    return {"token": TOKEN, "sessionId": SESSION, "endpoint": server.endpoint, **ids, **more}


async def join(node: RunningNode, server: VoiceServer, player: str = "p", **more: object) -> VoiceSession:
    """The newest session, once the node shows it as connected."""
    await done(node, "PUT", f"/v0/players/{player}/voice", voice(server, **more))
    session = await server.session(1)
    await until_voice(node, player, "connected")
    return session


async def until_voice(node: RunningNode, player: str, phase: str) -> Any:
    state = await until_state(node, player, lambda state: state["voice"] and state["voice"]["state"] == phase)
    return state["voice"]


def packets_of_song(node: RunningNode) -> list[bytes]:
    """The packets of song.opus, which every node of these tests has."""
    with av.open(node.folder / "song.opus") as media:
        return [bytes(packet) for packet in media.demux() if packet.size]


async def no_more_lost_than_told(node: RunningNode, sounds: Sequence[bytes | None], source: Sequence[bytes]) -> None:
    """The channel hears the packets of `source` from its begin, in their order. Where one is left out, because the
    machine let nobody send it in time, the player's state counts it as dropped."""
    left_out = at = 0
    for sound in sounds:
        assert sound is not None
        place = source.index(sound, at)
        left_out, at = left_out + place - at, place + 1
    await until_state(node, "p", lambda state: state["voice"]["packets"]["dropped"] >= left_out)


def nothing_was_in_the_clear(node: RunningNode, session: VoiceSession) -> None:
    source = set(packets_of_song(node))
    assert not [packet for packet in session.sounds if packet.payload in source]


def voice_processes(node: RunningNode) -> list[int]:
    """The ids of the processes that encrypt and send."""
    commands = ((pid, Path(f"/proc/{pid}/cmdline").read_bytes()) for pid in children_of(node.pid))
    return [pid for pid, command in commands if b"tonearm.voice.process" in command]


def secrets_in(text: str) -> list[str]:
    """What of a bot's credentials and of the sessions' keys stands there, in any way of writing that is usual."""
    key = [str(byte) for byte in KEY_HEAD]
    encoded = base64.b64encode(KEY_HEAD).decode()
    written = (TOKEN, SESSION, KEY_HEAD.decode(), KEY_HEAD.hex(), encoded, ",".join(key), ", ".join(key))
    return [secret for secret in written if secret in text]
