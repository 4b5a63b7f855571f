"""A voice server as Discord has them, for the tests: gateway v8 over TLS, UDP with discovery and both modes of
encryption, and the end-to-end encryption with other members, who hear what is sent.

docs.discord.com, "Voice Connections"; github.com/discord/dave-protocol. What it does wrong is ordered by the test:
attributes of `VoiceServer` that begin with `wrong_`, and the methods of `VoiceSession`.
"""

import asyncio
import json
import os
import secrets
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import aiohttp
import dave
from aiohttp import web

from tests.support.dave_group import ExternalSender, split_commit_and_welcome
from tests.support.eventually import Changes
from tests.support.serving import serving
from tests.support.voice_media import SILENCE, opened
from tonearm.core.voice_gateway import MODES

KEY_HEAD: Final = b"the-key-of-this-session-"  # each session's key begins with it, to be found where it must not be
_DISCOVERY: Final = struct.Struct(">HHI64sH")


@dataclass(frozen=True)
class Packet:
    """One packet of RTP, decrypted by the session's key. `counter` is its nonce. `sound` is what a member of the call
    hears: None where the end-to-end encryption cannot be opened."""

    sequence: int
    timestamp: int
    counter: int
    payload: bytes
    sound: bytes | None
    at_s: float

    @property
    def is_silence(self) -> bool:
        return self.payload == SILENCE


class Ear:
    """Another member of the call."""

    def __init__(self, call: "Call", user_id: int) -> None:
        self.user_id = user_id
        self.call = call
        self.session = dave.Session(None)
        self.decryptor = dave.Decryptor()
        self.begin()

    def begin(self) -> None:
        """A new group, or a new try to come into one."""
        self.session.reset()
        self.session.init(1, self.call.channel_id, str(self.user_id), None)
        self.session.set_external_sender(self.call.sender.package)

    @property
    def key_package(self) -> bytes:
        package = self.session.get_marshalled_key_package()
        assert package is not None
        return package

    def listen_to(self, user_id: int) -> None:
        ratchet = self.session.get_key_ratchet(str(user_id))
        if ratchet is not None:
            self.decryptor.transition_to_key_ratchet(ratchet)

    @property
    def authenticator(self) -> bytes:
        authenticator = self.session.get_last_epoch_authenticator()
        assert authenticator is not None
        return authenticator


@dataclass
class Call:
    """The group of a channel: the bot and the ears. `leaves` are the members in the order of the tree, None where one
    has gone."""

    channel_id: int
    bot_id: int
    sender: ExternalSender = field(init=False)
    ears: dict[int, Ear] = field(default_factory=dict)
    leaves: list[int | None] = field(default_factory=list)
    epoch: int = 0
    transition: int = 0
    bot: "VoiceSession | None" = None

    def __post_init__(self) -> None:
        self.sender = ExternalSender(self.channel_id)

    @property
    def users(self) -> set[str]:
        return {str(user) for user in (self.bot_id, *self.ears)}

    @property
    def _ears_in_group(self) -> list[Ear]:
        return [self.ears[user] for user in self.leaves if user in self.ears]

    @property
    def has_bot(self) -> bool:
        return self.bot_id in self.leaves

    async def found(self, *user_ids: int) -> None:
        """Ears begin the group, without the bot."""
        first, *others = (self.ears.setdefault(user, Ear(self, user)) for user in user_ids)
        self.leaves, self.epoch = [first.user_id], 0
        for other in others:
            await self.add(other)

    async def join(self, user_id: int) -> Ear:
        """Somebody comes: an ear commits where there is one in the group, else the bot."""
        ear = self.ears[user_id] = Ear(self, user_id)
        if self.bot is not None:
            await self.bot.send(11, {"user_ids": [str(user_id)]})
        await self.add(ear)
        return ear

    async def leave(self, user_id: int) -> None:
        """Somebody goes; who is left commits."""
        leaf = self.leaves.index(user_id)
        del self.ears[user_id]
        self.leaves[leaf] = None
        if self.bot is not None:
            await self.bot.send(13, {"user_id": str(user_id)})
        await self._change(self.sender.proposals(self.epoch, remove=(leaf,)), None)

    async def add(self, newcomer: "Ear | VoiceSession") -> None:
        package = newcomer.key_package
        user = newcomer.user_id
        proposals = self.sender.proposals(self.epoch, add=(package,))
        self._place(user)
        await self._change(proposals, newcomer)

    def _place(self, user: int) -> None:
        if None in self.leaves:
            self.leaves[self.leaves.index(None)] = user
        else:
            self.leaves.append(user)

    async def _change(self, proposals: bytes, newcomer: "Ear | VoiceSession | None") -> None:
        members = [ear for ear in self._ears_in_group if ear is not newcomer]
        answers = [ear.session.process_proposals(proposals, self.users) for ear in members]
        bot = self.bot if self.has_bot and newcomer is not self.bot else None
        answer = next((each for each in answers if each is not None), None)
        if bot is not None:
            await bot.send_binary(27, proposals)
            said = await bot.next_binary(28)
            answer = answer or said
        assert answer is not None
        commit, welcome = split_commit_and_welcome(answer)
        self.epoch += 1
        self.transition += 1
        for ear in members:
            assert isinstance(ear.session.process_commit(commit), dict)
        if isinstance(newcomer, Ear):
            assert welcome is not None
            assert newcomer.session.process_welcome(welcome, self.users) is not None
        head = struct.pack(">H", self.transition)
        if bot is not None:
            await bot.send_binary(29, head + commit)
        elif newcomer is not None and newcomer is self.bot:
            assert welcome is not None
            await self.bot.send_binary(30, head + welcome)
        if self.has_bot and self.bot is not None:
            await self.bot.execute(self.transition)
        for ear in self._ears_in_group:
            ear.listen_to(self.bot_id)

    async def take_back(self) -> None:
        """The bot could not work something up, and has asked for a new welcome."""
        assert self.bot is not None
        leaf = self.leaves.index(self.bot_id)
        self.leaves[leaf] = None
        await self._change(self.sender.proposals(self.epoch, remove=(leaf,)), None)
        await self.add(self.bot)


class VoiceSession:
    """What one Identify began. `said` are the messages of the bot, by opcode, without heartbeats; `packets` what came
    over UDP."""

    def __init__(self, server: "VoiceServer", socket: web.WebSocketResponse, identity: dict[str, Any]) -> None:
        self.server = server
        self.socket = socket
        self.identity = identity
        self.user_id = int(identity["user_id"])
        self.ssrc = secrets.randbits(32)
        self.key = KEY_HEAD + os.urandom(32 - len(KEY_HEAD))
        self.mode = ""
        self.said: list[tuple[int, Any]] = []
        self.packets: list[Packet] = []
        self.count = 0  # of those that are no silence
        self.address: tuple[str, int] | None = None
        self.closed_with: list[int | None] = []
        self.resumed = 0
        self.sequence = 0
        self._read = 0  # of `said`, by `next_binary`

    @property
    def key_package(self) -> bytes:
        return cast("bytes", [data for op, data in self.said if op == 26][-1])

    def of(self, op: int) -> list[Any]:
        return [data for each, data in self.said if each == op]

    @property
    def sounds(self) -> list[Packet]:
        """The packets that are no silence."""
        return [packet for packet in self.packets if not packet.is_silence]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await self.server.changes.until(condition, lambda: f"{what}; said {self.said}, {len(self.packets)} packets")

    async def until_silent(self) -> None:
        """The last five packets are silence. They may be read after what the WebSocket said behind them."""
        await self.until(lambda: [packet.is_silence for packet in self.packets[-5:]] == [True] * 5, "five silences")

    async def heard(self, count: int, *, more: bool = True) -> list[Packet]:
        """The next packets that are no silence."""
        begin = len(self.sounds) if more else 0
        await self.until(lambda: len(self.sounds) >= begin + count, f"{count} packets")
        return self.sounds[begin : begin + count]

    async def send(self, op: int, data: Any) -> None:
        self.sequence += 1
        await self.socket.send_json({"op": op, "d": data, "seq": self.sequence & 0xFFFF})

    async def send_binary(self, op: int, payload: bytes) -> None:
        self.sequence += 1
        await self.socket.send_bytes(struct.pack(">HB", self.sequence & 0xFFFF, op) + payload)

    async def next_binary(self, op: int) -> bytes:
        """The next message with this opcode, after those that were asked for before."""
        await self.until(lambda: any(each == op for each, _ in self.said[self._read :]), f"opcode {op}")
        index = next(i for i in range(self._read, len(self.said)) if self.said[i][0] == op)
        self._read = index + 1
        return cast("bytes", self.said[index][1])

    def forget_key_package(self) -> None:
        self._read = len(self.said)

    async def next_key_package(self) -> None:
        await self.next_binary(26)

    async def execute(self, transition: int) -> None:
        """Waits until the bot is ready for the transition, and has it happen."""
        ready = {"transition_id": transition}
        if transition:
            await self.until(lambda: ready in self.of(23), f"ready for {transition}")
            await self.send(22, ready)

    async def close(self, code: int, words: str = "") -> None:
        await self.socket.close(code=code, message=words.encode())

    def cut(self) -> None:
        """The socket ends without a close."""
        transport = self.socket._req.transport if self.socket._req is not None else None
        assert transport is not None
        transport.abort()

    def take(self, data: bytes, at_s: float) -> None:
        heard = opened(self.mode, self.key, data)
        payload = heard.payload
        call = self.server.call
        ears = call._ears_in_group if call is not None else []
        sound: bytes | None = payload
        if self.server.dave_version and payload != SILENCE:
            sound = ears[0].decryptor.decrypt(dave.MediaType.audio, payload) if ears else None
        if not self.server.keeps_packets:
            self.packets.clear()
        self.count += payload != SILENCE
        self.packets.append(Packet(heard.sequence, heard.timestamp, heard.counter, payload, sound, at_s))


class VoiceServer(asyncio.DatagramProtocol):
    """`sessions` in their order. With a `call` it offers the end-to-end encryption."""

    def __init__(self, call: Call | None) -> None:
        self.call = call
        self.dave_version = 0 if call is None else 1
        self.sessions: list[VoiceSession] = []
        self.changes = Changes()
        self.endpoint = ""
        self.dials = 0
        self.wrong_ready: dict[str, Any] = {}
        self.wrong_description: dict[str, Any] = {}
        self.wrong_resume: int | None = None  # the code with which each Resume is refused
        self.wrong_identify: int | None = None
        self.keeps_packets = True  # else the newest one only
        self.on_socket: Callable[[web.WebSocketResponse], Any] | None = None  # instead of Hello
        self.redirects_to = ""
        self._udp: asyncio.DatagramTransport | None = None
        self._by_ssrc: dict[int, VoiceSession] = {}

    async def session(self, number: int = 1) -> VoiceSession:
        """The session of this number, from 1, once the bot has described how it sends."""
        await self.changes.until(
            lambda: len(self.sessions) >= number and self.sessions[number - 1].mode,
            lambda: f"session {number}; {len(self.sessions)} sessions, {self.dials} dials",
        )
        return self.sessions[number - 1]

    # UDP

    @property
    def socket(self) -> Any:
        assert self._udp is not None
        return self._udp.get_extra_info("socket")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._udp = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        assert self._udp is not None
        at_s = asyncio.get_running_loop().time()
        if len(data) == _DISCOVERY.size and data[:2] == b"\0\1":
            _, length, ssrc, _, _ = _DISCOVERY.unpack(data)
            for session in self.sessions:
                if session.ssrc == ssrc:
                    session.address = address
                    self._udp.sendto(_DISCOVERY.pack(2, length, ssrc, address[0].encode(), address[1]), address)
        elif data[:2] == b"\x80\x78":
            (ssrc,) = struct.unpack_from(">I", data, 8)
            sender = self._by_ssrc.get(ssrc)
            if sender is not None:
                sender.take(data, at_s)
        self.changes.tell()

    def flood(self, session: VoiceSession, count: int) -> None:
        """Sends what nobody asked for."""
        assert self._udp is not None
        for _ in range(count):
            self._udp.sendto(os.urandom(200), session.address)

    # The gateway

    async def gateway(self, request: web.Request) -> web.StreamResponse:
        self.dials += 1
        self.changes.tell()
        if self.redirects_to:
            raise web.HTTPFound(self.redirects_to)
        assert request.query["v"] == "8"
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        if self.on_socket is not None:
            await self.on_socket(socket)
        await socket.send_json({"op": 8, "d": {"heartbeat_interval": 41_250}})
        session: VoiceSession | None = None
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                session = await self._take(socket, session, json.loads(message.data))
            elif message.type is aiohttp.WSMsgType.BINARY and session is not None:
                session.said.append((message.data[0], message.data[1:]))
                await self._take_binary(session, message.data[0])
            self.changes.tell()
        if session is not None:
            session.closed_with.append(socket.close_code)
        self.changes.tell()
        return socket

    async def _take(
        self, socket: web.WebSocketResponse, session: VoiceSession | None, message: dict[str, Any]
    ) -> VoiceSession | None:
        op, data = message["op"], message["d"]
        if op == 0:
            if self.wrong_identify is not None:
                await socket.close(code=self.wrong_identify)
                return None
            session = VoiceSession(self, socket, data)
            self.sessions.append(session)
            self._by_ssrc[session.ssrc] = session
            assert self._udp is not None
            host, port = self._udp.get_extra_info("sockname")
            modes = ["aead_aes128_old", *MODES]
            ready = {"ssrc": session.ssrc, "ip": host, "port": port, "modes": modes, "heartbeat_interval": 1}
            await session.send(2, {**ready, **self.wrong_ready})
            if self.call is not None:
                self.call.bot = session
                await session.send(11, {"user_ids": [str(user) for user in self.call.ears]})
                await session.send_binary(25, self.call.sender.package)
            return session
        if op == 7:
            if self.wrong_resume is not None:
                await socket.close(code=self.wrong_resume)
                return None
            session = next(each for each in self.sessions if each.identity["session_id"] == data["session_id"])
            session.socket = socket
            session.resumed += 1
            session.said.append((op, data))
            await session.send(9, None)
            return session
        assert session is not None
        if op == 3:
            await session.send(6, {"t": data["t"]})
            return session
        session.said.append((op, data))
        if op == 1:
            session.mode = data["data"]["mode"]
            description = {
                "mode": session.mode,
                "secret_key": list(session.key),
                "dave_protocol_version": self.dave_version,
            }
            await session.send(4, {**description, **self.wrong_description})
        return session

    async def _take_binary(self, session: VoiceSession, op: int) -> None:
        call = self.call
        if op == 26 and call is not None and call.leaves and not call.has_bot and len(session.of(26)) == 1:
            # It waits for what the bot says, which is read by this task.
            self._joining = asyncio.get_running_loop().create_task(call.add(session))


@asynccontextmanager
async def voice_server(
    certificate: Path | None, *, ears: tuple[int, ...] | None = None, bot_id: int = 3, channel_id: int = 2
) -> AsyncIterator[VoiceServer]:
    """A server on this machine whose certificate is `certificate`, of `make_certificate`; None: without TLS. With
    `ears`, even none, it has the end-to-end encryption, and these members found its group."""
    call = None if ears is None else Call(channel_id, bot_id)
    if call is not None and ears:
        await call.found(*ears)
    server = VoiceServer(call)
    application = web.Application()
    application.router.add_get("/", server.gateway)
    tls = None if certificate is None else ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    if tls is not None and certificate is not None:
        tls.load_cert_chain(certificate)
    async with serving(application, tls) as port:
        server.endpoint = f"127.0.0.1:{port}"
        udp, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: server, ("127.0.0.1", 0))
        try:
            yield server
        finally:
            udp.close()
