"""The loop of a voice process: it sends packets as their frames come, and silence and keepalives when they are due.

One thread does everything: it waits for the node's socket or for the next time at which something is due. It sends a
frame as soon as the frame arrives, because the node's clock sends each frame when it is due.
"""

import array
import heapq
import math
import select
import socket
import time
from collections import Counter
from contextlib import suppress
from typing import Final, TypeAlias

from tonearm.core.frame import FRAME_S
from tonearm.core.voice import LATE_MS, DaveStatus
from tonearm.voice import messages
from tonearm.voice.process.dave import DaveCall
from tonearm.voice.process.rtp import SILENCE, RtpStream

_MESSAGE_BYTES: Final = 256 * 1024
_SILENCES: Final = 5  # so that a listener's decoder ends its sound (docs.discord.com, "Voice Data Interpolation")
_SILENT_AFTER_S: Final = 3 * FRAME_S  # without a frame
_KEEPALIVE_S: Final = 5.0
_COUNTS_S: Final = 1.0
_LEAST_LATE_S: Final = LATE_MS[0] / 1000
_ON_PACE_S: Final = 0.75 * FRAME_S  # frames that are further apart do not catch up

_Frames: TypeAlias = list[tuple[int, bytes]]


class _Connection:
    """`ends`: it is closed after the frames of silence. `run_from_s`: when the first frame of the run was due."""

    __slots__ = (
        "call", "dropped", "due_s", "ends", "frames", "is_changed", "keepalive_due_s", "keepalives", "last_s",
        "late_at_s", "number", "rtp", "run_frames", "run_from_s", "send", "sent", "silence", "silence_due_s",
        "silences_left", "status", "udp",
    )  # fmt: skip

    def __init__(self, opened: messages.Open, udp: socket.socket, call: DaveCall, now_s: float) -> None:
        self.number = opened.connection
        self.udp = udp
        self.send = udp.send
        self.call = call
        self.rtp = RtpStream(opened.setting.mode, opened.setting.key, opened.setting.ssrc, now_s)
        self.frames = self.sent = self.silence = self.dropped = self.keepalives = 0
        self.silences_left = self.run_frames = 0
        self.run_from_s = self.last_s = self.keepalive_due_s = self.silence_due_s = self.late_at_s = now_s
        self.ends = self.is_changed = False
        self.status: DaveStatus | None = None
        self.due_s: float | None = None  # of its only valid entry in the heap


class VoiceWorker:
    """Serves the node until the node closes the socket."""

    def __init__(self, node: socket.socket) -> None:
        self._node = node
        self._coder = messages.Coder(messages.FromNode)
        self._connections: dict[int, _Connection] = {}
        self._late = [0, 0, 0]
        self._longest_mls_ms = 0.0
        self._counts_due_s = 0.0
        self._were_counted: tuple[object, ...] = ()
        self._alarms: list[tuple[float, int]] = []  # a heap of what is due, by connection
        self._playing: set[_Connection] = set()
        self._pause_s = math.inf  # from then on one of the playing connections may be in a pause
        self._is_over = False

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._node, select.POLLIN)
        while not self._is_over:
            wait_s = max(0.0, self._next_due_s() - time.monotonic())
            if poll.poll(wait_s * 1000 + 0.5):
                self._receive()
            self._do_what_is_due(time.monotonic())

    # From the node

    def _receive(self) -> None:
        frames: _Frames = []
        while True:
            try:
                message, ancillary, _, _ = self._node.recvmsg(_MESSAGE_BYTES, 64, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                break
            if not message:
                self._is_over = True
                break
            if message[:1] == messages.FRAMES:
                frames += messages.read_frames(message)
                continue
            self._send(frames)  # in the order of the messages
            frames = []
            self._take(self._coder.read(message), ancillary)
        self._send(frames)

    def _take(self, message: messages.FromNode, ancillary: list[tuple[int, int, bytes]]) -> None:
        now_s = time.monotonic()
        if isinstance(message, messages.Open):
            self._open(message, _descriptor(ancillary), now_s)
            return
        connection = self._connections.get(message.connection)
        if connection is None:
            return
        if isinstance(message, messages.Gateway):
            connection.call.take(message.op, message.data, now_s)
            self._serve(connection, now_s)
        elif isinstance(message, messages.Finish):
            connection.ends = True
            if not connection.silences_left:
                self._begin_silences(connection, now_s)
            self._serve(connection, now_s)
        else:
            self._close(connection)

    def _open(self, message: messages.Open, descriptor: int, now_s: float) -> None:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, fileno=descriptor)
        number, setting = message.connection, message.setting

        def say(op: int, data: dict[str, int] | bytes) -> None:
            assert op in messages.OPS_SAID
            self._tell(messages.Say(number, op, data))

        call = DaveCall(setting.user_id, setting.channel_id, setting.ssrc, setting.dave_version, say)
        connection = self._connections[number] = _Connection(message, udp, call, now_s)
        self._serve(connection, now_s)

    def _close(self, connection: _Connection) -> None:
        del self._connections[connection.number]
        self._playing.discard(connection)
        self._tell(self._counts([connection]))
        connection.udp.close()

    # Packets

    def _send(self, frames: _Frames) -> None:
        if len(frames) - len(dict(frames)) >= messages.MOST_FRAMES_BEHIND:
            frames = self._newest(frames)
        connections, monotonic = self._connections, time.monotonic
        for number, packet in frames:
            connection = connections.get(number)
            if connection is None or connection.ends:
                continue
            now_s = monotonic()
            if connection.run_frames:
                late_s = now_s - connection.run_from_s - connection.run_frames * FRAME_S
                if late_s > _LEAST_LATE_S:
                    self._is_late(connection, late_s, now_s)
                elif late_s < 0:
                    connection.run_from_s += late_s  # the first frame of the run was late
            else:
                self._begin_run(connection, now_s)
            connection.frames += 1
            connection.run_frames += 1
            connection.last_s = now_s
            connection.is_changed = True
            call = connection.call
            payload = packet if call.passes_through else call.encrypt(packet)
            if payload is None:
                connection.rtp.skip(1)
                continue
            sealed = connection.rtp.packet(payload)
            if sealed is not None:
                try:  # noqa: SIM105 - which takes no time here
                    connection.send(sealed)
                except OSError:  # nothing but the next packet helps: the server may be back by then
                    pass
                connection.sent += 1

    def _newest(self, frames: _Frames) -> _Frames:
        """The frames without those that came too late, because this process or the node stood still."""
        left = Counter(number for number, _ in frames)
        kept: _Frames = []
        for number, packet in frames:
            left[number] -= 1
            connection = self._connections.get(number)
            if connection is not None and left[number] >= messages.MOST_FRAMES_BEHIND:
                connection.frames += 1
                connection.dropped += 1
                if connection.run_frames:
                    connection.run_frames += 1
                    connection.rtp.skip(1)
            else:
                kept.append((number, packet))
        return kept

    def _is_late(self, connection: _Connection, late_s: float, now_s: float) -> None:
        """Counts a late packet. Two late packets at the usual pace do not catch up: frames before them were lost, or
        never made by a node that stood still. The time of these frames has passed all the same, so it is skipped."""
        for index, limit_ms in enumerate(LATE_MS):
            self._late[index] += late_s * 1000 > limit_ms
        on_pace_since_s, connection.late_at_s = connection.late_at_s, now_s
        missing = round(late_s / FRAME_S)
        if missing and _ON_PACE_S < now_s - on_pace_since_s < 2 * FRAME_S:
            connection.run_frames += missing
            connection.rtp.skip(missing)

    def _begin_run(self, connection: _Connection, now_s: float) -> None:
        connection.silences_left = connection.run_frames = 0
        connection.rtp.begin_run(now_s)
        connection.run_from_s = now_s
        self._playing.add(connection)
        self._pause_s = min(self._pause_s, now_s + _SILENT_AFTER_S)

    def _find_pauses(self, now_s: float) -> None:
        """Looks at all playing connections at once. With an alarm for each, every frame would postpone one."""
        last_s = math.inf
        for connection in tuple(self._playing):
            if now_s - connection.last_s >= _SILENT_AFTER_S:
                self._begin_silences(connection, now_s)
                self._serve(connection, now_s)
            elif connection.last_s < last_s:
                last_s = connection.last_s
        self._pause_s = last_s + _SILENT_AFTER_S

    def _begin_silences(self, connection: _Connection, now_s: float) -> None:
        self._playing.discard(connection)
        connection.run_frames = 0
        connection.silences_left = _SILENCES
        connection.silence_due_s = max(now_s, connection.last_s + FRAME_S)
        connection.rtp.begin_run(connection.silence_due_s)

    def _send_silence(self, connection: _Connection) -> None:
        connection.silences_left -= 1
        connection.silence_due_s += FRAME_S
        sealed = connection.rtp.packet(SILENCE)
        if sealed is not None:
            with suppress(OSError):
                connection.send(sealed)
            connection.silence += 1
            connection.is_changed = True

    def _keep_alive(self, connection: _Connection, now_s: float) -> None:
        with suppress(OSError):
            connection.send(connection.keepalives.to_bytes(8, "little"))
        connection.keepalives += 1
        connection.keepalive_due_s = now_s + _KEEPALIVE_S

    # What is due

    def _next_due_s(self) -> float:
        next_s = min(self._pause_s, self._counts_due_s)
        return min(self._alarms[0][0], next_s) if self._alarms else next_s

    def _set_alarm(self, connection: _Connection, at_s: float) -> None:
        if connection.due_s is None or at_s < connection.due_s:
            connection.due_s = at_s
            heapq.heappush(self._alarms, (at_s, connection.number))

    def _do_what_is_due(self, now_s: float) -> None:
        while self._alarms and self._alarms[0][0] <= now_s:
            at_s, number = heapq.heappop(self._alarms)
            connection = self._connections.get(number)
            if connection is not None and connection.due_s == at_s:
                connection.due_s = None
                self._serve(connection, now_s)
        if now_s >= self._pause_s:
            self._find_pauses(now_s)
        if now_s >= self._counts_due_s:
            self._counts_due_s = now_s + _COUNTS_S
            changed = [connection for connection in self._connections.values() if connection.is_changed]
            counts = self._counts(changed)
            if (counts.connections, counts.late, counts.longest_mls_ms) != self._were_counted:
                self._were_counted = ([], counts.late, counts.longest_mls_ms)
                self._tell(counts)

    def _serve(self, connection: _Connection, now_s: float) -> None:
        """Does everything of a connection that is due, and sets its next alarm."""
        call = connection.call
        call.heal(now_s)
        self._call_changed(connection)
        if connection.silences_left and now_s >= connection.silence_due_s:
            self._send_silence(connection)
            if not connection.silences_left:
                self._tell(messages.Silent(connection.number, connection.frames))
                if connection.ends:
                    self._close(connection)
                    self._tell(messages.Finished(connection.number))
                    return
        if now_s >= connection.keepalive_due_s:
            self._keep_alive(connection, now_s)
        next_s = connection.keepalive_due_s
        if connection.silences_left:
            next_s = min(next_s, connection.silence_due_s)
        if call.heals_at_s is not None:
            next_s = min(next_s, call.heals_at_s)
        self._set_alarm(connection, next_s)

    # To the node

    def _call_changed(self, connection: _Connection) -> None:
        call, before = connection.call, connection.status
        self._longest_mls_ms = max(self._longest_mls_ms, call.longest_step_ms)
        now = (call.version, call.is_ready, call.epoch)
        if before is None or now != (before.version, before.ready, before.epoch):
            connection.status = DaveStatus(*now, call.privacy_code)
            self._tell(messages.DaveChanged(connection.number, connection.status))

    def _counts(self, connections: list[_Connection]) -> messages.Counts:
        for connection in connections:
            connection.is_changed = False
        counts = [(each.number, each.sent, each.silence, each.dropped) for each in connections]
        first, second, third = self._late
        return messages.Counts(counts, (first, second, third), self._longest_mls_ms)

    def _tell(self, message: messages.FromProcess) -> None:
        """Waits while the node does not read, because no report may be lost."""
        self._node.sendall(self._coder.pack(message))


def _descriptor(ancillary: list[tuple[int, int, bytes]]) -> int:
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    (descriptor,) = descriptors
    return descriptor
