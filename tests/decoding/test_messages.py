import json
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonearm.core.effects import Echo, Effects, Limiter
from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.file_formats import MAX_PICTURE_BYTES
from tonearm.core.filters import BAND_COUNT, Filters
from tonearm.core.frame import FRAME_BYTES
from tonearm.core.outputs import NO_OUTPUTS, PCM, Output, mp3_output
from tonearm.core.track_info import MeasuredLoudness, SourceFacts
from tonearm.decoding.message_coding import BrokenMessage, Message, MessageSplitter, pack
from tonearm.decoding.messages import (
    BODY_LIMIT_BYTES,
    DATA_CHUNK_BYTES,
    Audio,
    CloseSession,
    Crossfade,
    Data,
    DataFailed,
    Decoded,
    DropSource,
    Encoded,
    Failed,
    FirstAudio,
    Flush,
    FoundPicture,
    Grant,
    Mark,
    MarkKind,
    Measured,
    Opened,
    OpenSession,
    OpenSource,
    Overlay,
    OverlayPosition,
    Ping,
    Plan,
    Pong,
    ReadRequest,
    Ready,
    SeekFailed,
    SeekSource,
    TitleAt,
    Titled,
)
from tonearm.sandbox.report import SandboxReport

LOUD = Filters(2.5, (-24.0, *(0.0,) * (BAND_COUNT - 2), 24.0), Effects(echo=Echo(50.5), limiter=Limiter(-2.0, False)))
FAILURE = PlayFailure(FailureCode.HTTP_STATUS, Stage.CONNECT, "The server answered 404 “weg”.", "Check it.", 404)
FACTS = SourceFacts(123_456, True, False, "Käse 🧀", "somebody", "DEA123456789", "https://example.org/a.png", "mp3")
FAR = 2**64 - 1
OPUS = Output("opus")
VOICE = Output("opus", 6_000, 10, True, "voice", False)
LAST = 2**32 - 1

EVERY_KIND: tuple[Message, ...] = (
    OpenSession(1, 2, FAR, LOUD),
    OpenSession(1, 2, 3, Filters()),
    CloseSession(LAST),
    OpenSource(1, 2, "a “name”\n", 2**40, True, False, "audio/mpeg", 48_000, True),
    OpenSource(1, 2, "", None, False, True, None, 0, False),
    OpenSource(1, 2, "cut", 5, True, False, None, 48_000, True, end_sample=FAR, resumes=True),
    SeekSource(1, 2, LAST, FAR),
    DropSource(1, LAST),
    Data(1, 2, FAR, bytes(range(256)) * (DATA_CHUNK_BYTES // 256)),
    Data(1, 2, 0, b""),
    DataFailed(1, 2, 1 << 40, FAILURE),
    Plan(1, 5, 3, 17, None, 2, None, Filters()),
    Plan(1, LAST, LAST - 1, 10**12, 0, 2, 3, LOUD),
    Plan(
        1,
        5,
        3,
        17,
        None,
        2,
        3,
        Filters(),
        Crossfade(FAR, 48_000, "linear", is_rest=True),
        Crossfade(0, 1, "equalPower"),
    ),
    Plan(1, 2, 1, 3, None, 2, 3, LOUD, None, None, frozenset({PCM, OPUS})),
    Plan(1, 2, 1, 3, None, 2, 3, LOUD, overlays=(Overlay(LAST, 5.0, -60.0, 96_000, FAR, True),), holds=True),
    Grant(1, 2, FAR - 10, FAR),
    Grant(1, 2, 3, 4, NO_OUTPUTS, FAR),
    Grant(1, 2, 3, 4, NO_OUTPUTS),
    Grant(1, 2, 3, 4, frozenset({PCM, OPUS, VOICE, mp3_output(320_000)})),
    Flush(7),
    Ping(FAR),
    FoundPicture(1, LAST, b""),
    FoundPicture(1, 2, bytes(range(256)) * 400),
    Ready(SandboxReport(seccomp=True, landlock_abi=7, problem="a “reason”")),
    ReadRequest(1, 2, FAR, LAST),
    Opened(1, 2, FACTS),
    Opened(1, 2, SourceFacts()),
    Failed(1, 2, FAILURE, gave_audio=True),
    Failed(1, 2, replace(FAILURE, http_status=None), gave_audio=False),
    SeekFailed(1, 2, FAILURE),
    Decoded(1, LAST),
    FirstAudio(1, LAST),
    TitleAt(1, 2, FAR, "Bj\u00f6rk - J\u00f3ga \ud800"),
    Titled(1, 2, FAR, ""),
    Measured(1, LAST, -9.25, 123_456),
    OpenSource(1, 2, "", 5, True, False, None, 0, False, measured=MeasuredLoudness(-9.5, 4_000), album="Album"),
    Opened(1, 2, SourceFacts(loudness_lufs=-8.0, album_loudness_lufs=-9.0, album="Album")),
    Audio(1, 2, FAR, 0, 3, FAR, (), b"", 1.1),
    Audio(1, 2, FAR, 0, 3, FAR, (Mark(MarkKind.END, FAR, 3), Mark(MarkKind.BEGIN, 0, LAST)), b""),
    Audio(1, 2, 3, 5, 4, 5, (Mark(MarkKind.INTERRUPTED, 4, 5),), bytes(range(240)) * (5 * FRAME_BYTES // 240)),
    Audio(1, 2, 3, 2, 4, 5, (), b"", 1.5, ((OPUS, (b"\xfc\xff\xfe", b"")), (VOICE, (bytes(1275), b"1")))),
    Audio(1, 2, 3, 1, 4, 5, (Mark(MarkKind.END, 3, 1),), bytes(FRAME_BYTES), 1.0, ((OPUS, (b"one",)),)),
    Audio(1, 2, 3, 0, 4, 5, (), b"", 0.0, (), (OverlayPosition(LAST, FAR, False, True), OverlayPosition(1, 0))),
    Encoded(1, 0, FAR, mp3_output(64_000), ()),
    Encoded(1, 3, 13, mp3_output(128_000), (bytes(384), b"\xff\xfb")),
    Pong(FAR, 12.5),
)


def split(pieces: Iterable[bytes]) -> list[Message]:
    splitter = MessageSplitter()
    return [message for piece in pieces for message in splitter.feed(piece)]


def framed(kind: int, body: bytes, session: int = 1) -> bytes:
    return struct.pack("<IBI", len(body), kind, session) + body


@pytest.mark.parametrize("message", EVERY_KIND, ids=lambda message: type(message).__name__)
def test_every_message_comes_out_as_it_went_in(message: Message) -> None:
    assert split([pack(message)]) == [message]


def test_messages_may_come_byte_by_byte() -> None:
    small = [message for message in EVERY_KIND if len(pack(message)) < 1000]
    assert len(small) > 15
    stream = b"".join(map(pack, small))
    assert split(bytes([byte]) for byte in stream) == small


def test_many_messages_may_come_at_once() -> None:
    assert split([b"".join(map(pack, EVERY_KIND)) * 3]) == [*EVERY_KIND] * 3


def test_a_picture_may_be_as_large_as_pictures_may_be() -> None:
    found = FoundPicture(1, 2, bytes(range(256)) * (MAX_PICTURE_BYTES // 256))
    assert split([pack(found)]) == [found]


@given(st.lists(st.sampled_from(EVERY_KIND), max_size=8), st.lists(st.integers(0, 40_000), max_size=30))
def test_messages_may_be_cut_anywhere(messages: list[Message], lengths: list[int]) -> None:
    stream = b"".join(map(pack, messages))
    pieces = []
    for length in lengths:
        pieces.append(stream[:length])
        stream = stream[length:]
    assert split([*pieces, stream]) == messages


@given(st.text(st.characters(exclude_categories=()), max_size=50))
def test_texts_may_hold_anything(text: str) -> None:
    # A high and a low surrogate side by side are one character to JSON.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _has_pair(text) else text
    failure = PlayFailure(FailureCode.CORRUPT, Stage.DECODE, text, text)
    messages: list[Message] = [
        Failed(1, 2, failure, gave_audio=False),
        OpenSource(1, 2, text, None, False, False, text, 0, False),
    ]
    assert split(map(pack, messages)) == messages


def _has_pair(text: str) -> bool:
    return any("\ud800" <= high <= "\udbff" and "\udc00" <= low <= "\udfff" for high, low in pairwise(text))


def test_a_message_in_pieces_is_not_read_before_it_is_whole() -> None:
    data = pack(Data(1, 2, 0, b"bytes"))
    splitter = MessageSplitter()
    assert list(splitter.feed(data[:-1])) == []
    assert list(splitter.feed(data[-1:])) == [Data(1, 2, 0, b"bytes")]


def test_data_stays_as_it_was_when_the_receiving_buffer_is_used_again() -> None:
    buffer = bytearray(pack(Data(1, 2, 0, b"first")))
    splitter = MessageSplitter()
    (message,) = splitter.feed(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert message == Data(1, 2, 0, b"first")


def audio_head(*, marks: int, frames: int) -> bytes:
    """What stands before the marks of an `Audio` of PCM."""
    return struct.pack("<IQIQdHHB?B?H", 1, 1, 1, 1, 1.0, marks, frames, 0, True, 0, False, 0)


BROKEN = {
    "unknown kind": framed(99, b""),
    "kind 0": framed(0, b""),
    "too long": struct.pack("<IBI", BODY_LIMIT_BYTES + 1, 5, 1),
    "data without an offset": framed(5, bytes(11)),
    "grant too short": framed(8, bytes(19)),
    "grant too long": framed(8, bytes(22)),
    "flush with a body": framed(9, b"x"),
    "audio without a head": framed(37, bytes(10)),
    "audio without its marks": framed(37, audio_head(marks=3, frames=0) + bytes(13)),
    "audio with an unknown mark": framed(37, audio_head(marks=1, frames=0) + b"\x09" + bytes(14)),
    "audio with less than a frame": framed(37, audio_head(marks=0, frames=1) + bytes(FRAME_BYTES - 1)),
    "audio with more than its frames": framed(37, audio_head(marks=0, frames=1) + bytes(FRAME_BYTES + 4)),
    "no JSON": framed(7, b"{"),
    "no text": framed(7, b"\xff\xfe"),
    "JSON of nothing": framed(7, b"null"),
    "JSON list": framed(34, b"[1]"),
    "endless JSON": framed(34, b"[" * 100_000),
    "field missing": framed(34, b'{"source": 1}'),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_broken_bytes_are_no_message(data: bytes) -> None:
    with pytest.raises(BrokenMessage):
        split([data])


@pytest.mark.parametrize(
    ("message", "field", "value"),
    [
        (Opened(1, 2, FACTS), "source", "2"),
        (Opened(1, 2, FACTS), "facts", None),
        (Opened(1, 2, FACTS), "facts", {"length_ms": "long"}),
        (Failed(1, 2, FAILURE, gave_audio=True), "gave_audio", 1),
        (Failed(1, 2, FAILURE, gave_audio=True), "failure", {"code": "no_such_code"}),
        (Plan(1, 2, 1, 0, None, 1, None, LOUD), "at_frame", 1.5),
        (Plan(1, 2, 1, 0, None, 1, None, LOUD), "following", "3"),
        (Plan(1, 2, 1, 0, None, 1, None, LOUD), "filters", {"volume": 10**400, "gains_db": []}),
        (OpenSource(1, 2, "a", None, False, False, None, 0, False), "name", None),
    ],
)
def test_a_field_of_another_type_is_refused(message: Message, field: str, value: object) -> None:
    whole = pack(message)
    fields = json.loads(whole[9:])
    if isinstance(value, dict):
        value = {**fields[field], **value}
    with pytest.raises(BrokenMessage):
        split([framed(whole[4], json.dumps({**fields, field: value}).encode())])


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_broken(data: bytes) -> None:
    with suppress(BrokenMessage):
        split([data])


@given(st.sampled_from(EVERY_KIND), st.integers(0, 10**6), st.integers(0, 255))
def test_a_flipped_byte_gives_a_message_or_is_refused(message: Message, at: int, value: int) -> None:
    data = bytearray(pack(message))
    data[at % len(data)] = value
    with suppress(BrokenMessage):
        split([bytes(data)])


def test_the_messages_before_a_broken_one_are_delivered() -> None:
    messages = MessageSplitter().feed(pack(Ping(1)) + pack(Ping(2)) + framed(99, b""))
    assert [next(messages), next(messages)] == [Ping(1), Ping(2)]
    with pytest.raises(BrokenMessage, match="unknown kind 99"):
        next(messages)
