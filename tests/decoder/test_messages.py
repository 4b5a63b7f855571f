import math
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.file_formats import MAX_PICTURE_BYTES
from tonearm.core.filters import BAND_COUNT, Echo, Effects, Filters, Limiter
from tonearm.core.frame import FRAME_BYTES, MOST_ENCODERS, MOST_OPUS_PACKET_BYTES, PCM, Output, mp3_output
from tonearm.core.track_info import MeasuredLoudness, SourceFacts
from tonearm.decoder.message_coding import BrokenMessage, Message, MessageSplitter, pack, parts_of
from tonearm.decoder.messages import (
    DATA_CHUNK_BYTES,
    MAX_COUNT,
    MAX_TEXT_CHARACTERS,
    PASSED_GRANT_FRAMES,
    Audio,
    Burst,
    CloseSession,
    CrossfadeOrder,
    Data,
    DataFailed,
    Decoded,
    DropSource,
    Encoded,
    Failed,
    FirstAudio,
    Flush,
    FoundPicture,
    FromDecoder,
    Grant,
    Heard,
    Mark,
    MarkKind,
    Measured,
    Opened,
    OpenSession,
    OpenSource,
    OverlayOrder,
    OverlayPosition,
    Ping,
    Plan,
    Pong,
    ReadRequest,
    Ready,
    SeekRefused,
    SeekSource,
    SessionFailed,
    TitleAt,
    Titled,
)
from tonearm.sandbox.report import SandboxReport

LOUD = Filters(2.5, (-24.0, *(0.0,) * (BAND_COUNT - 2), 24.0), Effects(echo=Echo(50.5), limiter=Limiter(-2.0, False)))
FAILURE = PlayFailure(FailureCode.HTTP_STATUS, Stage.CONNECT, "The server answered 404 “weg”.", "Check it.", 404)
FACTS = SourceFacts(123_456, True, False, "Käse 🧀", "somebody", "DEA123456789", "https://example.org/a.png", "mp3")
FAR = MAX_COUNT
OPUS = Output("opus")
CROSSFADES = CrossfadeOrder(FAR, 48_000, "linear", is_late=True), CrossfadeOrder(0, 1, "equalPower")
VOICE = Output("opus", 6_000, 10, True, "voice", False)
LAST = 2**32 - 1
HEADER_BYTES: Final = 9
DATA, TITLE, READ = Data(1, 2, 3, b""), TitleAt(1, 2, 3, "title"), ReadRequest(1, 2, 3, 4)

EVERY_KIND: tuple[Message, ...] = (
    OpenSession(1, 2, FAR, LOUD, is_heard=False, plays_on=True),
    Heard(1, 7),
    CloseSession(LAST),
    OpenSource(1, 2, "a “name”\n", 2**40, True, False, "audio/mpeg", 48_000, True),
    OpenSource(1, 2, "cut", 5, True, False, None, 48_000, True, end_sample=FAR, resumes=True),
    SeekSource(1, 2, LAST, FAR),
    DropSource(1, LAST),
    Data(1, 2, FAR, bytes(range(256)) * (DATA_CHUNK_BYTES // 256)),
    DataFailed(1, 2, 1 << 40, FAILURE),
    Plan(1, 5, 3, 17, None, 2, 3, LOUD, *CROSSFADES),
    Plan(1, LAST, LAST - 1, 10**12, 0, 2, None, LOUD, None, None, frozenset({PCM, OPUS})),
    Plan(1, 2, 1, 3, None, 2, 3, LOUD, overlays=(OverlayOrder(LAST, 5.0, -60.0, 96_000, FAR, True),), pauses=True),
    Grant(1, 2, 3, 4, frozenset({PCM, OPUS, VOICE, mp3_output(320_000)})),
    Flush(7),
    Burst(1, OPUS, FAR, 100),
    Ping(FAR),
    FoundPicture(1, LAST, bytes(range(256)) * 400),
    Ready(SandboxReport(seccomp=True, landlock_abi=7, problem="a “reason”")),
    ReadRequest(1, 2, FAR, DATA_CHUNK_BYTES),
    Opened(1, 2, FACTS),
    Failed(1, 2, replace(FAILURE, http_status=None), gave_audio=False),
    SessionFailed(1, LAST, FAILURE),
    SeekRefused(1, 2, FAILURE),
    Decoded(1, LAST),
    FirstAudio(1, LAST),
    Titled(1, 2, FAR, ""),
    TitleAt(1, 2, FAR, "Bj\u00f6rk - J\u00f3ga"),
    Measured(1, LAST, -9.25, 123_456),
    OpenSource(1, 2, "", 5, True, False, None, 0, False, measured=MeasuredLoudness(-9.5, 4_000), album="Album"),
    Opened(1, 2, SourceFacts(loudness_lufs=-8.0, album_loudness_lufs=-9.0, album="Album")),
    Audio(1, 2, FAR, 0, 3, FAR, (Mark(MarkKind.END, FAR, 3), Mark(MarkKind.BEGIN, 0, LAST)), b""),
    Audio(1, 2, 3, 5, 4, 5, (Mark(MarkKind.INTERRUPTED, 4, 5),), bytes(range(240)) * (5 * FRAME_BYTES // 240)),
    Audio(1, 2, 3, 2, 4, 5, (), b"", 1.5, ((OPUS, (b"\xfc\xff\xfe", b"")), (VOICE, (bytes(1276), b"1")))),
    Audio(1, 2, 3, 0, 4, 5, (), b"", 0.0, (), (OverlayPosition(LAST, FAR, False, True), OverlayPosition(1, 0))),
    Encoded(1, 3, 13, mp3_output(128_000), (bytes(384), b"\xff\xfb")),
    Pong(FAR, 12.5),
)


def split(pieces: Iterable[bytes]) -> list[Message]:
    splitter = MessageSplitter()
    return [message for piece in pieces for message in splitter.feed(piece)]


def framed(kind: int, body: bytes, bulk: bytes = b"") -> bytes:
    return struct.pack("<BII", kind, len(body), len(bulk)) + body + bulk


@pytest.mark.parametrize("message", EVERY_KIND, ids=lambda message: type(message).__name__)
def test_every_message_comes_out_as_it_went_in(message: Message) -> None:
    assert split([pack(message)]) == [message]


def test_the_largest_picture_and_the_most_and_longest_packets_that_can_be_asked_for_are_messages() -> None:
    packets = (bytes(MOST_OPUS_PACKET_BYTES),) * PASSED_GRANT_FRAMES
    forms = tuple((Output("opus", 100_000 + number), packets) for number in range(MOST_ENCODERS))
    marks = tuple(Mark(MarkKind.BEGIN, FAR, LAST, 1) for _ in range(200))
    audio = Audio(LAST, LAST, FAR, PASSED_GRANT_FRAMES, LAST, FAR, marks, b"", 1.5, forms)
    found = FoundPicture(1, 2, bytes(range(256)) * (MAX_PICTURE_BYTES // 256))
    assert split([pack(audio), pack(found)]) == [audio, found]


@given(st.lists(st.sampled_from(EVERY_KIND), max_size=8), st.lists(st.integers(0, 40_000), max_size=30))
def test_messages_may_be_cut_anywhere(messages: list[Message], lengths: list[int]) -> None:
    stream = b"".join(map(pack, messages))
    pieces = []
    for length in lengths:
        pieces.append(stream[:length])
        stream = stream[length:]
    assert split([*pieces, stream]) == messages


def test_texts_are_cut_to_what_is_taken_and_lose_what_is_no_text() -> None:
    """The name of a file may hold half a surrogate pair, and an error may quote a long address."""
    failure = PlayFailure(FailureCode.CORRUPT, Stage.DECODE, "\ud800" + "ä" * 5000, "hint")
    [failed] = split([pack(Failed(1, 2, failure, gave_audio=False))])
    assert isinstance(failed, Failed)
    assert failed.failure == replace(failure, message="?" + "ä" * (MAX_TEXT_CHARACTERS - 1))


def test_data_stays_as_it_was_when_the_receiving_buffer_is_used_again() -> None:
    buffer = bytearray(pack(Data(1, 2, 0, b"first")))
    splitter = MessageSplitter()
    (message,) = splitter.feed(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert message == Data(1, 2, 0, b"first")


def body_of(message: Message) -> Any:
    """The fields of a message as they are sent."""
    return msgspec.msgpack.decode(parts_of(message)[0][HEADER_BYTES:])


def with_field(message: Message, at: int, value: object) -> bytes:
    """The message with another value of one field, as somebody sends it who does not care for types."""
    fields = body_of(message)
    fields[at] = value
    return framed(pack(message)[0], msgspec.msgpack.encode(fields))


OPENED, AUDIO = Opened(1, 2, FACTS), Audio(1, 2, 3, 1, 4, 5, (), b"", 1.0, ((OPUS, (b"one",)),))
FAILED = Failed(1, 2, FAILURE, gave_audio=True)
TEXT = "x" * (MAX_TEXT_CHARACTERS + 1)


BROKEN = {
    "unknown kind": framed(99, b""),
    "body too long": struct.pack("<BII", pack(OPENED)[0], 64 * 1024 + 1, 0),
    "bulk too long": struct.pack("<BII", pack(DATA)[0], 20, DATA_CHUNK_BYTES + 1),
    "bulk of a message without": framed(pack(OPENED)[0], pack(OPENED)[HEADER_BYTES:], b"more"),
    "picture too long": struct.pack("<BII", pack(FoundPicture(1, 2, b""))[0], 20, MAX_PICTURE_BYTES + 1),
    "nothing": framed(pack(DATA)[0], b""),
    "field missing": framed(pack(DATA)[0], msgspec.msgpack.encode([1, 2, 3])),
    "endless nesting": framed(pack(OPENED)[0], b"\x91" * 60_000),
    "four thousand million fields": framed(pack(DATA)[0], b"\xdd\xff\xff\xff\xff\x01"),
    "four thousand million marks": framed(pack(AUDIO)[0], b"\x9d\x01\x01\x01\x01\x01\x01\xdd\xff\xff\xff\xff\x01"),
    "no UTF-8": framed(pack(TITLE)[0], b"\x94\x01\x02\x03\xa2\xff\xfe"),
    "number as text": with_field(OPENED, 1, "2"),
    "negative number": with_field(DATA, 2, -1),
    "count too large": with_field(DATA, 2, 2**63),
    "negative length": with_field(OPENED, 2, body_of(OPENED)[2] | {"length_ms": -1}),
    "NaN as loudness": with_field(OPENED, 2, body_of(OPENED)[2] | {"loudness_lufs": math.nan}),
    "title too long": with_field(OPENED, 2, body_of(OPENED)[2] | {"title": TEXT}),
    "live title too long": with_field(TITLE, 3, TEXT),
    "failure without a message": with_field(FAILED, 2, body_of(FAILED)[2] | {"message": ""}),
    "failure with no status": with_field(FAILED, 2, body_of(FAILED)[2] | {"http_status": 1000}),
    "unknown code": with_field(FAILED, 2, body_of(FAILED)[2] | {"code": "no_such_code"}),
    "read too long": with_field(READ, 3, DATA_CHUNK_BYTES + 1),
    "NaN measured": with_field(Measured(1, 2, 0.0, 1), 2, math.nan),
    "NaN as time": with_field(Pong(1, 0.0), 1, math.nan),
    "too many frames": with_field(AUDIO, 3, PASSED_GRANT_FRAMES + 1),
    "more frames than packets": with_field(AUDIO, 3, 2),
    "packet too long": with_field(AUDIO, 9, [[OPUS, [bytes(1277)]]]),
    "too many forms": with_field(AUDIO, 9, [[OPUS, [b"one"]]] * (MOST_ENCODERS + 1)),
    "rate too high": with_field(AUDIO, 8, 4.1),
    "lag of a frame": with_field(AUDIO, 12, 960),
    "unknown mark": with_field(AUDIO, 6, [{"kind": 9, "frame": 1, "source": 1}]),
    "too many marks": with_field(AUDIO, 6, [{"kind": 0, "frame": 1, "source": 1}] * 201),
    "audio with less than a frame": framed(pack(AUDIO)[0], pack(AUDIO)[HEADER_BYTES:], bytes(FRAME_BYTES - 1)),
    "audio with more than its frames": framed(pack(AUDIO)[0], pack(AUDIO)[HEADER_BYTES:], bytes(2 * FRAME_BYTES)),
    "too many MP3 frames": with_field(Encoded(1, 0, 1, mp3_output(64_000), ()), 4, [b"mp3"] * 1001),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_what_breaks_a_rule_is_no_message(data: bytes) -> None:
    with pytest.raises(BrokenMessage) as refused:
        split([data])
    assert len(str(refused.value)) < 300
    assert str(refused.value).isprintable()


@given(st.integers(0, len(EVERY_KIND) - 1), st.data())
def test_any_values_are_a_message_or_broken(number: int, data: st.DataObject) -> None:
    message = EVERY_KIND[number]
    fields = body_of(message)
    at = data.draw(st.integers(0, len(fields) - 1))
    leaf = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary()
    flat = leaf | st.lists(leaf, max_size=4) | st.dictionaries(st.text(), leaf, max_size=4)
    anything = flat | st.lists(flat, max_size=3) | st.dictionaries(st.text(), flat, max_size=3)
    with suppress(BrokenMessage):
        [taken] = split([with_field(message, at, data.draw(anything))])
        assert split([pack(taken)]) == [taken]


@given(st.sampled_from(EVERY_KIND), st.integers(0, 10**6), st.integers(0, 255))
def test_a_flipped_byte_gives_a_message_or_is_refused(message: Message, at: int, value: int) -> None:
    data = bytearray(pack(message))
    data[at % len(data)] = value
    with suppress(BrokenMessage):
        split([bytes(data)])


def test_the_messages_before_a_broken_one_are_delivered_and_its_session_is_told() -> None:
    # The second is what only the node may say.
    for data, session in ((framed(99, b""), 0), (pack(DATA), 0), (with_field(Opened(17, 2, FACTS), 1, "2"), 17)):
        messages = MessageSplitter(FromDecoder).feed(pack(Pong(1, 0.0)) + pack(Pong(2, 0.0)) + data)
        assert [next(messages), next(messages)] == [Pong(1, 0.0), Pong(2, 0.0)]
        with pytest.raises(BrokenMessage) as refused:
            next(messages)
        assert refused.value.session == session
