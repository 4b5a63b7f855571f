"""Sends a player's frames to its listeners. Each frame is framed once for each kind of connection.

The broadcast never waits: a slow listener loses its own oldest frames, and a listener that reads nothing is closed.
"""

import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from tonearm.core.frame import (
    FRAME_MS,
    FRAME_SAMPLES,
    FRAMES_PER_SECOND,
    MP3_BITRATES_BPS,
    MP3_DELAY_SAMPLES,
    MP3_FRAME_SAMPLES,
    SAMPLE_RATE_HZ,
    SILENT_FRAME,
    SILENT_PACKET,
    Forms,
    ListenerKind,
    Output,
    Outputs,
    Payloads,
    check_one_more,
)
from tonearm.player.clients.sinks import FrameSink
from tonearm.protocol.framing import (
    CloseCode,
    FrameFlag,
    Framing,
    Stamp,
    as_message,
    payload_of,
)

log = logging.getLogger(__name__)

CLOSE_AFTER_FRAMES: Final = 10 * FRAMES_PER_SECOND  # a listener that read nothing for this long is closed
NOTHING_READ: Final = "nothing was read for 10 seconds"
FAILED: Final = "its connection failed in an unforeseen way"
CUT_AFTER_FRAMES: Final = FRAMES_PER_SECOND  # a closing connection that is still open after this is cut

_LEAST_RECENT_MS: Final = 2400  # kept for new streams, because Chromium plays nothing before it has this much
_MP3_FRAME_MS: Final = MP3_FRAME_SAMPLES * 1000 // SAMPLE_RATE_HZ

_UNFORESEEN: Final = "a listener's connection failed in an unforeseen way and is cut"


class SentFrames(Protocol):
    """The origin of the frames, such as a `FrameBuffer`. Its members describe the frame that was taken last."""

    next_frame: int

    @property
    def sent_position_samples(self) -> int: ...

    @property
    def sent_to(self) -> tuple[int, int]: ...

    @property
    def is_sent_passed(self) -> bool: ...


class _Listener:
    """A connection and the frames that wait for it.

    `keeps_up`: no frames wait, and the connection is neither closing nor gone. `ring_size`: how many frames may wait.
    `counts`: the number of listeners for which it counts. `waits`: it gets nothing before its burst. `is_new`: it gets
    no silence, because audio is about to come.
    """

    __slots__ = (
        "counts", "has_left", "is_closing", "is_new", "keeps_up", "kind", "last_pending", "must_prime", "ring",
        "ring_size", "sink", "stalled_frames", "waits",
    )  # fmt: skip

    def __init__(self, sink: FrameSink, counts: int, *, is_voice: bool) -> None:
        self.sink = sink
        self.kind: ListenerKind = "voice" if is_voice else sink.output.format
        self.ring: deque[bytes] = deque()
        self.ring_size = max(1, _messages_in(sink.output, sink.max_latency_ms + sink.burst_ms))
        self.stalled_frames = 0
        self.last_pending = 0
        self.keeps_up = True
        self.is_closing = False
        self.has_left = False
        self.counts = counts
        self.waits = False
        self.is_new = False
        self.must_prime = sink.output.format == "opus"  # see `Broadcast._prime`


class _Group:
    """Listeners that get the same bytes. `is_special`: these bytes differ from the buffer's message."""

    __slots__ = ("framing", "is_special", "listeners", "make", "must_prime", "output", "wants_silence")

    def __init__(self, output: Output, framing: Framing, wants_silence: bool, listeners: tuple[_Listener, ...]) -> None:
        self.output = output
        self.framing = framing
        self.make = framing.make
        self.wants_silence = wants_silence
        self.listeners = listeners
        self.must_prime = any(listener.must_prime for listener in listeners)
        self.is_special = self.make is not None or self.must_prime


class _Sounded:
    """The last messages that were sent to the streams of one form, oldest first. A new stream begins with them.

    `is_whole`: they also contain the audio from before the first of these streams, as far as the decoder has it. That
    audio comes once, and ends before frame `begins_at`. No stream begins before it has come.

    MP3 is encoded after the frames were sent to others, and its frames are longer. `end_frame` is the first frame that
    is not encoded yet; `owed_samples` is the time that has passed without MP3 being sent for it.
    """

    __slots__ = ("begins_at", "end_frame", "is_whole", "messages", "owed_samples")

    def __init__(self, output: Output, next_frame: int, *, has_past: bool) -> None:
        self.messages: deque[bytes] = deque()
        self.is_whole = not has_past or output.format == "pcm"  # no earlier audio is encoded for PCM
        self.begins_at: int | None = None
        self.end_frame = next_frame
        self.owed_samples = 0

    def keep(self, size: int) -> None:
        """Keeps `size` messages from now on."""
        if self.messages.maxlen != size:
            self.messages = deque(self.messages, size)

    def begin_with(self, messages: Sequence[bytes]) -> None:
        """Puts `messages` before the messages that were sent so far."""
        self.is_whole = True
        self.messages = deque((*messages, *self.messages), self.messages.maxlen)


class Broadcast:
    """The listeners of one player.

    The frames come from `buffer`, which has the position of the present frame in its track. `order_burst` orders the
    audio before a frame from the decoder, in a form of Opus. It returns False if the decoder does not have that audio;
    `begin_opus` takes the result. Without `order_burst` no earlier audio is available. `frames_lost` counts the frames
    that listeners lost. `closed` counts the closed listeners by reason: NOTHING_READ or FAILED.
    """

    def __init__(self, player_id: str, buffer: SentFrames, order_burst: Callable[[Output, int], bool] | None) -> None:
        self._player_id = player_id
        self._order_burst = order_burst
        # Both tuples are replaced, because listeners may come and go while a frame is sent.
        self._listeners: tuple[_Listener, ...] = ()
        self._groups: tuple[_Group, ...] = ()
        # The receivers of frames in these forms, each with the index of its payload. Nearly all listeners get the
        # message as the buffer has it, and are listed directly: a tick comes after 20 ms of other work, so every object
        # on the way has to be loaded into the processor's caches.
        self._forms: Forms = ()
        self._plain_routes: tuple[tuple[_Listener, int], ...] = ()
        self._special_routes: tuple[tuple[_Group, int], ...] = ()
        self._sounded: dict[Output, _Sounded] = {}  # for the forms of all streams
        self._buffer = buffer
        self.frames_lost = 0
        self.closed: Counter[str] = Counter()
        self.outputs: Outputs = frozenset()
        self.wants_silence = False

    def __len__(self) -> int:
        """The number of connections, counted or not."""
        return len(self._listeners)

    @property
    def counted(self) -> int:
        """The number of listeners, as all connections count."""
        return sum(listener.counts for listener in self._listeners)

    def counted_by_format(self) -> Counter[ListenerKind]:
        counted: Counter[ListenerKind] = Counter()
        for listener in self._listeners:
            if listener.counts:
                counted[listener.kind] += listener.counts
        return counted

    @property
    def least_burst_ms(self) -> int:
        """The shortest burst of all listeners; 0 without listeners, or if any of them is not new."""
        if not all(listener.is_new for listener in self._listeners):
            return 0
        return min((listener.sink.burst_ms for listener in self._listeners), default=0)

    def attach(
        self, sink: FrameSink, *, is_counted: bool = True, is_voice: bool = False, sounds: bool = False
    ) -> Callable[[], None]:
        """Adds a listener from the next frame on. Returns a call that removes it. Raises `LimitReached` if there would
        be too many forms, and any error of the connection.

        `sounds`: the player has audio now, or will have it soon. Then the listener gets no silence before `settle`. At
        most until then, it also waits for the audio from before the first stream of its form.
        """
        check_one_more(self.outputs, sink.output)
        listener = _Listener(sink, int(is_counted), is_voice=is_voice)
        self._set_listeners((*self._listeners, listener))
        try:
            if sink.burst_ms:
                self._begin_with_burst(listener, sounds=sounds)
        except BaseException:
            self._remove(listener)
            raise
        return lambda: self._remove(listener)

    @property
    def awaits_bursts(self) -> bool:
        """Whether any listener waits for its burst of earlier audio."""
        return any(listener.waits for listener in self._listeners)

    def settle(self, sink: FrameSink) -> None:
        """Ends a new listener's wait for its burst. From now on it gets silence like all others."""
        for listener in self._listeners:
            if listener.sink is sink:
                listener.is_new = False
                sounded = self._sounded.get(sink.output)
                if listener.waits and sounded is not None and sounded.begins_at is not None:
                    sounded.is_whole = True  # the ordered audio was lost with its process
                self._release(listener)

    def count(self, sink: FrameSink, listeners: int = 1) -> bool:
        """Sets for how many listeners a connection counts. Returns False if that is no change, or if it has left."""
        for listener in self._listeners:
            if listener.sink is sink and listener.counts != listeners:
                listener.counts = listeners
                return True
        return False

    def send(self, forms: Forms, payloads: Payloads, number: int = 1, flags: int = 0) -> None:
        """Sends a frame to the listeners of these forms. `number` is the number of the frame in the player's life."""
        if forms is not self._forms:
            self._forms = forms
            self._find_routes()
        for listener, place in self._plain_routes:
            self._give(listener, payloads if isinstance(payloads, bytes) else payloads[place])
        if self._special_routes or self._sounded:
            self._send_specially(forms, payloads, number, flags)

    def begin_opus(self, output: Output, before_frame: int, packets: Sequence[bytes]) -> None:
        """Takes the packets that the decoder made for `order_burst`."""
        sounded = self._sounded.get(output)
        if sounded is not None and not sounded.is_whole and sounded.begins_at == before_frame:
            self._begin_form(output, sounded, packets)

    def send_mp3(
        self, output: Output, first_frame: int, end_frame: int, mp3_frames: Sequence[bytes], *, begins: bool = False
    ) -> None:
        """Sends the MP3 of the frames from `first_frame` to before `end_frame`. `begins`: a new encoder made it, and it
        includes audio from before the output had listeners.

        Frames before `first_frame` that were never encoded, because a decoder process died, become silence. Otherwise
        the stream would fall behind the time, and the listeners' players would run out of audio.
        """
        sounded = self._sounded.get(output)
        if sounded is None or end_frame < sounded.end_frame:
            return  # all listeners of this output are gone
        if first_frame < sounded.end_frame:
            if begins and not sounded.is_whole:
                sounded.end_frame = end_frame
                sounded.owed_samples += _mp3_samples_kept(first_frame, end_frame, mp3_frames)
                self._begin_form(output, sounded, mp3_frames)
            return
        if begins and not sounded.is_whole:
            self._begin_form(output, sounded, ())
        passed_frames = min(first_frame, self._buffer.next_frame) - sounded.end_frame
        if passed_frames > 0:
            sounded.owed_samples += passed_frames * FRAME_SAMPLES
            self._send_mp3_silence(output, sounded)
        sounded.owed_samples += _mp3_samples_kept(first_frame, end_frame, mp3_frames)
        sounded.end_frame = end_frame
        for mp3_frame in mp3_frames:
            self.send_to_streams(output, as_message(mp3_frame))

    @property
    def must_catch_up(self) -> bool:
        """Whether frames wait for a slow listener, or one has to be cut, although nothing new is sent to them."""
        return any(listener.ring or listener.is_closing for listener in self._listeners)

    def catch_up(self) -> None:
        """Does for slow listeners what a frame does, in a tick without one. Connections that get silence instead are
        left out."""
        for listener in self._listeners:
            if not listener.keeps_up and not listener.sink.wants_silence:
                self._give(listener, b"")

    def send_silence(self, number: int = 1, *, is_mp3_awaited: bool = False) -> None:
        """Sends 20 ms of silence to the connections that require data while the player sends nothing. `number` is the
        number of the next frame.

        `is_mp3_awaited`: earlier frames are still being encoded to MP3, so MP3 listeners get their silence later.
        """
        for output in {group.output for group in self._groups if group.wants_silence}:
            if output.format != "mp3":
                self.send_to_streams(output, _silence(output), silence_before=number)
                continue
            sounded = self._sounded[output]
            sounded.owed_samples += FRAME_SAMPLES
            if not is_mp3_awaited:
                self._send_mp3_silence(output, sounded)

    def send_to_streams(self, output: Output, message: bytes, *, silence_before: int | None = None) -> None:
        """Sends a message, independently of the player's clock, to the connections that get silence. `silence_before`:
        the message is silence before the frame with this number."""
        is_kept = True
        for group in self._groups:
            if group.output == output and group.wants_silence:
                stamp = _NO_STAMP
                if silence_before is not None and group.framing.is_stamped:
                    position_us = max(0, self._buffer.sent_to[1]) * 1_000_000 // SAMPLE_RATE_HZ
                    stamp = Stamp(silence_before, position_us, FrameFlag.SILENCE)
                in_framing = group.framing.of(message, stamp)
                for listener in group.listeners:
                    if silence_before is not None and listener.is_new:
                        is_kept = False
                    else:
                        self._give(listener, in_framing)
        if is_kept and (sounded := self._sounded.get(output)) is not None:  # its last listener may have left by now
            sounded.messages.append(message)

    def close(self, code: int, reason: str) -> None:
        """Removes all listeners and closes their connections."""
        listeners = self._listeners
        self._set_listeners(())
        for listener in listeners:
            listener.has_left, listener.keeps_up = True, False
        for listener in listeners:
            if not listener.is_closing:
                try:
                    listener.sink.close(code, reason)
                except Exception:
                    log.exception(_UNFORESEEN)
                    self._cut(listener)

    def _remove(self, listener: _Listener) -> None:
        listener.has_left, listener.keeps_up = True, False
        self._set_listeners(tuple(other for other in self._listeners if other is not listener))

    def _set_listeners(self, listeners: tuple[_Listener, ...]) -> None:
        self._listeners = listeners
        kinds: dict[tuple[Output, Framing, bool], list[_Listener]] = {}
        for listener in listeners:
            sink = listener.sink
            kinds.setdefault((sink.output, sink.framing, sink.wants_silence), []).append(listener)
        self._groups = tuple(_Group(*kind, tuple(members)) for kind, members in kinds.items())
        self.outputs = frozenset(group.output for group in self._groups)
        self.wants_silence = any(group.wants_silence for group in self._groups)
        self._keep_sounded()
        self._find_routes()

    def _find_routes(self) -> None:
        forms = self._forms
        routes = [(group, forms.index(group.output)) for group in self._groups if group.output in forms]
        self._special_routes = tuple((group, place) for group, place in routes if group.is_special)
        self._plain_routes = tuple(
            (listener, place) for group, place in routes if not group.is_special for listener in group.listeners
        )

    def _send_specially(self, forms: Forms, payloads: Payloads, number: int, flags: int) -> None:
        """Sends a frame to groups with another framing, and keeps it for later bursts."""
        messages = (payloads,) if isinstance(payloads, bytes) else payloads
        for group, place in self._special_routes:
            stamp = _NO_STAMP
            if group.framing.is_stamped:
                passed = FrameFlag.PASSED if group.output.passes_through and self._buffer.is_sent_passed else 0
                position_us = self._buffer.sent_position_samples * 1_000_000 // SAMPLE_RATE_HZ
                stamp = Stamp(number, position_us, flags | passed)
            if group.must_prime:
                self._prime(group, number, stamp)
            message = messages[place] if group.make is None else group.make(payload_of(messages[place]), stamp)
            for listener in group.listeners:
                self._give(listener, message)
        if self._sounded:
            self._remember(forms, messages)

    # The start of a connection

    def _prime(self, group: _Group, number: int, stamp: Stamp) -> None:
        """Sends a silent packet to each new listener in mid-stream, before its first packet. Otherwise its Opus decoder
        would play the first 100 ms of quiet music much too loud."""
        group.must_prime, group.is_special = False, group.make is not None
        primer = group.framing.of(_SILENT_PACKET_MESSAGE, stamp._replace(flags=FrameFlag.SILENCE))
        for listener in group.listeners:
            if listener.must_prime and not listener.waits:
                listener.must_prime = False
                if number > 1:
                    self._give(listener, primer)
        self._find_routes()

    def _keep_sounded(self) -> None:
        """Keeps as many of the last messages as the longest burst requires."""
        longest: dict[Output, int] = {}
        for listener in self._listeners:
            sink = listener.sink
            is_stream = sink.wants_silence and sink.output.format != "pcm"
            if sink.burst_ms or is_stream:
                least_ms = _LEAST_RECENT_MS if is_stream else 0
                longest[sink.output] = max(sink.burst_ms, least_ms, longest.get(sink.output, 0))
        next_frame = self._buffer.next_frame
        before = self._sounded
        has_past = self._order_burst is not None
        self._sounded = {
            output: before.get(output) or _Sounded(output, next_frame, has_past=has_past) for output in longest
        }
        for output, burst_ms in longest.items():
            self._sounded[output].keep(_messages_in(output, burst_ms))

    def _begin_with_burst(self, listener: _Listener, *, sounds: bool) -> None:
        output = listener.sink.output
        sounded = self._sounded[output]
        listener.is_new = sounds
        if not sounds:
            wanted = _messages_in(output, listener.sink.burst_ms)
            self._begin(listener, [_silence(output)] * (wanted - len(sounded.messages)) + list(sounded.messages))
        elif sounded.is_whole:
            self._begin(listener, sounded.messages)
        else:
            listener.waits, listener.keeps_up = True, False

    def _begin_form(self, output: Output, sounded: _Sounded, payloads: Sequence[bytes]) -> None:
        """Takes the audio from before the first stream of a form, and starts the listeners that waited for it."""
        sounded.begin_with([as_message(payload) for payload in payloads])
        for listener in self._listeners:
            if listener.sink.output == output:
                self._release(listener)

    def _release(self, listener: _Listener) -> None:
        """Starts a listener that has waited for its burst."""
        if not listener.waits or listener.has_left or listener.is_closing:
            return
        listener.waits = False
        try:
            self._begin(listener, self._sounded[listener.sink.output].messages)
        except Exception:
            log.exception(_UNFORESEEN)
            self._cut(listener)
        else:
            listener.keeps_up = True

    def _begin(self, listener: _Listener, messages: Iterable[bytes]) -> None:
        """Writes the listener's burst, taken from the end of `messages`."""
        sink = listener.sink
        burst = list(messages)[-_messages_in(sink.output, sink.burst_ms) :]
        if listener.must_prime and burst:
            listener.must_prime = False
            if burst[0] != _SILENT_PACKET_MESSAGE:
                burst.insert(0, _SILENT_PACKET_MESSAGE)
        for message in burst:
            sink.write(sink.framing.of(message, _NO_STAMP))

    def _remember(self, forms: Forms, messages: tuple[bytes, ...]) -> None:
        for output, message in zip(forms, messages, strict=True):
            sounded = self._sounded.get(output)
            if sounded is None:
                continue
            sounded.messages.append(message)
            if not sounded.is_whole and sounded.begins_at is None:
                sounded.begins_at = self._buffer.next_frame - 1
                if self._order_burst is None or not self._order_burst(output, sounded.begins_at):
                    self._begin_form(output, sounded, ())

    # Sending

    def _send_mp3_silence(self, output: Output, sounded: _Sounded) -> None:
        while sounded.owed_samples >= MP3_FRAME_SAMPLES + MP3_DELAY_SAMPLES:
            sounded.owed_samples -= MP3_FRAME_SAMPLES
            self.send_to_streams(output, _silence(output), silence_before=0)

    def _give(self, listener: _Listener, message: bytes) -> None:
        try:
            if listener.keeps_up and listener.sink.offer(message):
                return
            if listener.has_left:
                return  # it left while the frame was sent to others
            if listener.waits:
                return  # its burst will contain this frame
            if listener.is_closing:
                self._wait_for_close(listener)
            else:
                self._keep(listener, message)
        except Exception:
            log.exception(_UNFORESEEN)
            self._cut(listener)

    def _keep(self, listener: _Listener, message: bytes) -> None:
        """Adds the frame, unless it is empty, to the ring of a slow listener, then writes as many frames as its
        connection accepts."""
        sink, ring = listener.sink, listener.ring
        pending = sink.pending_bytes()
        if message:
            ring.append(message)
        if not pending or pending < listener.last_pending:
            listener.stalled_frames = 0
        else:
            listener.stalled_frames += 1
        while ring and not sink.pending_bytes():
            sink.write(ring.popleft())
        listener.last_pending = sink.pending_bytes()
        if len(ring) > listener.ring_size:
            ring.popleft()
            if ring and sink.framing.after_loss is not None:
                ring[0] = sink.framing.after_loss(ring[0])
            self.frames_lost += 1
        if listener.stalled_frames >= CLOSE_AFTER_FRAMES:
            listener.is_closing = True
            listener.stalled_frames = 0
            ring.clear()
            sink.close(CloseCode.TOO_SLOW, NOTHING_READ)
            self._note_closed(listener, NOTHING_READ)
        listener.keeps_up = not (ring or listener.is_closing or listener.has_left)

    def _cut(self, listener: _Listener) -> None:
        """Removes a listener whose connection raised an error, without an effect on the others."""
        self._remove(listener)
        self._note_closed(listener, FAILED)
        with contextlib.suppress(Exception):
            listener.sink.abort()

    def _note_closed(self, listener: _Listener, reason: str) -> None:
        self.closed[reason] += 1
        form = listener.sink.output.format
        log.info("player %s: a listener is closed (%s): %s", self._player_id, form, reason)

    def _wait_for_close(self, listener: _Listener) -> None:
        """Called for each frame while the connection is closing. Cuts a connection that does not close in time."""
        listener.stalled_frames += 1
        if listener.stalled_frames >= CUT_AFTER_FRAMES:
            self._remove(listener)
            listener.sink.abort()


_NO_STAMP: Final = Stamp(0, 0)
_SILENT_FRAME_MESSAGE: Final = as_message(SILENT_FRAME)
_SILENT_PACKET_MESSAGE: Final = as_message(SILENT_PACKET)


def _mp3_samples_kept(first_frame: int, end_frame: int, mp3_frames: Sequence[bytes]) -> int:
    """By how many samples these frames increase the audio that is still in the encoder."""
    return (end_frame - first_frame) * FRAME_SAMPLES - len(mp3_frames) * MP3_FRAME_SAMPLES


def _messages_in(output: Output, duration_ms: int) -> int:
    """The number of messages that contain this much audio."""
    return -(-duration_ms // (_MP3_FRAME_MS if output.format == "mp3" else FRAME_MS))


def _silence(output: Output) -> bytes:
    match output.format:
        case "pcm":
            return _SILENT_FRAME_MESSAGE
        case "opus":
            return _SILENT_PACKET_MESSAGE
        case "mp3":
            return as_message(silent_mp3_frame(output.bitrate_bps))


def silent_mp3_frame(bitrate_bps: int) -> bytes:
    """24 ms of silence at 48 kHz: a header, and side information that announces no spectrum.

    It fits between any two frames that use no bits of other frames. This is true for all MP3 frames of the node.
    """
    header = 0xFFFB_0400 | (MP3_BITRATES_BPS.index(bitrate_bps) + 1) << 12
    size = MP3_FRAME_SAMPLES // 8 * bitrate_bps // 48_000
    return header.to_bytes(4, "big") + bytes(size - 4)
