"""The status on terminals and elsewhere: what is shown of a player's events, of late frames and of levels."""

import io
import math
import os
import struct
from collections.abc import Iterator

import pytest
from rich.cells import cell_len

from tests.support.audio_files import Signal, music, s16, tone
from tests.support.environment import variables
from tests.support.listened_node import seen, track
from tests.support.loudness_meter import measured_by_ffmpeg
from tests.support.tracks import FILE_MISSING
from tonearm.commands.listen_display import SILENCE_DB, Display, MeterReading, Meters, Pacing, PlayerView
from tonearm.core.frame import FRAME_BYTES
from tonearm.protocol.rendering import failure_out


@pytest.fixture(autouse=True)
def no_columns() -> Iterator[None]:
    with variables(COLUMNS=""):
        yield


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def view(title: str, length_ms: int = 4_000_000, is_stream: bool = False) -> PlayerView:
    shown = PlayerView(lambda: 0.0)
    there = track(title, length_ms=length_ms, is_stream=is_stream)
    shown.follow(seen("PlayerState", state="playing", track=there, trackId="t", position=3_725_000))
    return shown


def test_elsewhere_there_are_plain_lines_and_no_repetition() -> None:
    stream, song = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), view("Song")
    display = Display(stream)
    for _ in range(2):
        display.show(song, MeterReading((-6.0, -60.0), -5.8, -14.24), 3)
    song.follow(seen("FiltersChange", filters={"limiter": {"ceilingDb": -1, "enabled": True}}))
    display.show(song, MeterReading((-90.0, 3.0), -1.04, -math.inf), 0)
    for name in ("jingle", "news"):
        song.follow(seen("OverlayStart", overlayId=name))
    display.show(song, MeterReading(), 0)
    stream.seek(0)
    assert stream.read().replace("playing 1:02:05 / 1:06:40  Song  ", "... ").splitlines() == [
        "... ██████████████░░ ░░░░░░░░░░░░░░░░   -5.8 dBTP  -14.2 LUFS  late 3",
        "... ░░░░░░░░░░░░░░░░ ████████████████   -1.0 dBTP    --  LUFS  limit -1.0 dB reached  late 0",
        "... ░░░░░░░░░░░░░░░░ ░░░░░░░░░░░░░░░░    --  dBTP    --  LUFS  limit -1.0 dB  +2 over it  late 0",
    ]


def test_a_stream_that_knows_ascii_only_gets_ascii() -> None:
    content = io.BytesIO()
    stream = io.TextIOWrapper(content, encoding="ascii")
    Display(stream).show(view("Łódź", 0, is_stream=True), MeterReading((-30.0, -30.0), -30.0, -31.0), 0)
    assert content.getvalue() == (
        b"playing 1:02:05 (live)  ??d?  ########........ ########........  -30.0 dBTP  -31.0 LUFS  late 0\n"
    )


@pytest.mark.parametrize("columns", [80, 50, 40, 5, 1])
def test_a_terminal_gets_lines_that_fit_and_are_drawn_again(columns: int) -> None:
    stream = Terminal(io.BytesIO(), encoding="utf-8", newline="")
    with variables(COLUMNS=str(columns), LINES="30"):
        display = Display(stream, keys="space pause")
        display.show(view("日本語の名前" * 20), MeterReading((0.0, 0.0), 0.0, 0.0), 0)
    stream.seek(0)
    drawn = stream.read()
    assert (drawn[:4], drawn[-10:]) == ("\r\x1b[J", "\r\x1b[A\x1b[A\x1b[A")
    lines = drawn[4:-10].split("\n")
    assert (len(lines), max(map(cell_len, lines)) < columns) == (4, True)
    if columns == 80:
        assert lines[0].startswith("日本語の名前日本語の名前")
        assert lines[1:] == [
            "playing 1:02:05 / 1:06:40  volume 100 %  waiting 0  late 0",
            f"{'█' * 16} {'█' * 16}    0.0 dBTP    0.0 LUFS",
            "space pause",
        ]


def test_a_stream_that_is_gone_does_not_end_the_listening() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = io.TextIOWrapper(io.FileIO(writing, "w"), encoding="utf-8", write_through=True)
    Display(stream).say("gone")
    stream.detach().close()


@pytest.mark.parametrize("columns", [80, 40])
def test_the_columns_of_a_pipe_are_kept_and_have_twelve_letters_of_the_title(columns: int) -> None:
    stream = io.StringIO()
    with variables(COLUMNS=str(columns)):
        Display(stream).show(view("Twelve letters and more of it"), MeterReading((0.0, -6.0), -5.8, -14.24), 0)
    assert (len(stream.getvalue()), "  Twelve lette..." in stream.getvalue()) == (columns + 1, columns > 40)


def test_frames_are_late_against_the_flow() -> None:
    for arrivals_ms, late in (
        (range(0, 2000, 20), 0),
        ((0, 35, 40, 75, 80, 119), 0),  # jitter of less than two frames
        ((0, 101, 101, 102, 119, 119, 120), 3),  # due at 20, 40, 60, 80, 100 and 120
        ((60, 60, 60, 60, 80, 100, 185), 1),  # the first came 60 ms late itself, as the next ones show
        ((0, 20, 3000, 3020, 3040), 1),  # a long hole counts once
    ):
        pacing = Pacing()
        for arrival_ms in arrivals_ms:
            pacing.arrived(arrival_ms / 1000)
        assert pacing.late_frames == late
        pacing.interrupted()
        pacing.arrived(9.0)  # after a break that was announced
        assert pacing.late_frames == late


def heard(*signals: Signal) -> tuple[Meters, bytes]:
    """Meters that heard one signal after the other, frame by frame, and what they heard."""
    pcm = b"".join(s16(signal).astype("<i2").tobytes() for signal in signals)
    pcm = pcm[: len(pcm) // FRAME_BYTES * FRAME_BYTES]
    meters = Meters()
    for start in range(0, len(pcm), FRAME_BYTES):
        meters.add(pcm[start : start + FRAME_BYTES])
    return meters, pcm


def test_each_channel_has_its_own_peak_which_is_kept_until_it_is_taken() -> None:
    meters, silence = Meters(), MeterReading((SILENCE_DB, SILENCE_DB), -math.inf, -math.inf)
    assert meters.take() == silence
    for samples, peaks_db in (((0, -16384, 8192, 0, -100, 100), (-12.04, -6.02)), ((-32768, 0), (0.0, SILENCE_DB))):
        meters.add(struct.pack(f"<{len(samples)}h", *samples).ljust(FRAME_BYTES, b"\0"))
        meters.add(bytes(FRAME_BYTES))
        assert meters.take().peaks_db == pytest.approx(peaks_db, abs=0.01)
    meters.add(bytes(FRAME_BYTES))
    assert meters.take() == silence


@pytest.mark.parametrize("level_db", [-23.0, -33.0, -3.0])
def test_a_tone_of_997_hz_in_both_channels_is_as_loud_as_its_level(level_db: float) -> None:
    """EBU Tech 3341, cases 1 and 2."""
    meters, _ = heard(tone(997, 1.0, level=10 ** (level_db / 20)))
    levels = meters.take()
    assert levels.momentary_lufs == pytest.approx(level_db, abs=0.1)
    assert levels.true_peak_db == pytest.approx(level_db, abs=0.05)
    assert levels.peaks_db == pytest.approx((level_db, level_db), abs=0.05)


def test_all_that_was_heard_is_summed_up_as_ffmpeg_does() -> None:
    meters, pcm = heard(music(4.0, level=0.9), tone(40, 1.0, level=0.02), music(3.0, level=0.2, seed=2))
    meters.take()
    lufs, true_peak_db = measured_by_ffmpeg(pcm)
    assert meters.integrated_lufs == pytest.approx(lufs, abs=0.1)
    assert meters.highest_true_peak_db == pytest.approx(true_peak_db, abs=0.2)


def test_the_state_follows_the_events_and_what_breaks_the_flow_or_is_worth_a_line_is_told() -> None:
    now_s = 7.0
    shown = PlayerView(lambda: now_s)
    shown.follow(seen("PlayerState", state="playing", paused=True, position=1500, track=track("Song", "Someone", 9000)))
    assert (shown.state, shown.paused, shown.position_ms) == ("playing", True, 1500)
    assert (shown.title, shown.length_ms, shown.is_stream) == ("Song - Someone", 9000, False)
    playing = {"state": "playing", "paused": False, "positionRate": 1.0}
    long = "A title as recordings of live concerts have it " * 3
    for event, breaks, sentence in (
        (seen("PlayerUpdate", **playing, position=1000), False, None),
        (seen("TrackStart", track=track("Song", "Singer"), position=1000), True, "track starts: Song - Singer"),
        (seen("PlayerPause"), True, None),
        (seen("PlayerResume"), True, None),
        (seen("PlayerUpdate", **{**playing, "state": "loading"}), True, None),
        (seen("Seek", position=12_500, **{"from": 1000}), True, "sought to 12.5 s"),
        (seen("SeekFailed", code="not_seekable", position=0), False, "cannot be sought: it plays from its start"),
        (seen("QueueUpdate", length=3, version=7), False, "3 in the queue"),
        (seen("TrackStart", track=track(long, "Singer"), position=0), True, f"track starts: {long[:62]}..."),
        (seen("PlayerUpdate", **playing, position=5000), False, None),
        (seen("StreamTitle", title="Now on air"), False, None),
    ):
        assert shown.follow(event) == (breaks, sentence)
        assert shown.paused == (event.op == "PlayerPause")
    now_s = 8.0
    assert (shown.position_ms, shown.title) == (6000, "Now on air")
    failed = seen("TrackException", track=track("a"), error=failure_out(FILE_MISSING))
    assert shown.follow(failed)[1] == "track failed: There is no such file. Check the path."
    ended = seen("TrackEnd", track=track("a"), reason="skipped", playedMs=0)
    assert shown.follow(ended) == (True, "track ended: skipped")
    assert (shown.title, shown.length_ms) == ("", 0)


@pytest.mark.parametrize(
    ("enabled", "others", "is_on", "with_overlay"),
    [
        ("auto", {}, False, True),
        ("auto", {"compressor": {"thresholdDb": -20}}, True, True),
        ("auto", {"normalization": {"mode": "off"}}, False, True),
        (False, {"compressor": {"thresholdDb": -20}}, False, False),
        (True, {"compressor": None}, True, True),
    ],
)
def test_the_limiter_is_shown_while_filters_or_an_overlay_have_it_on(
    enabled: str | bool, others: dict[str, object], is_on: bool, with_overlay: bool
) -> None:
    shown = PlayerView()
    filters = {"limiter": {"ceilingDb": -2.5, "enabled": enabled}, **others}
    numbers = dict.fromkeys(("position", "length", "duckDb", "fadeMs", "startMs"), 0)
    jingle = {"overlayId": "jingle", "uri": "jingle.wav", "volume": 1, **numbers}
    for state, overlays in (("playing", 1), ("loading", 0)):
        sounds, expected = [{**jingle, "state": state}], with_overlay if overlays else is_on
        shown.follow(seen("PlayerState", state="playing", track=track("a"), overlays=sounds, **filters))
        assert (shown.overlays, shown.ceiling_db) == (overlays, -2.5 if expected else None)
    failed = seen("OverlayException", overlayId="jingle", error=failure_out(FILE_MISSING))
    for event, overlays, sentence in (
        (seen("OverlayStart", overlayId="jingle"), 1, "an overlay begins"),
        (failed, 1, "overlay failed: There is no such file. Check the path."),
        (seen("OverlayEnd", overlayId="jingle", reason="finished"), 0, "overlay ended: finished"),
    ):
        assert shown.follow(event) == (False, sentence)
        for changed, is_shown in (({"limiter": None}, False), (filters, with_overlay if overlays else is_on)):
            shown.follow(seen("FiltersChange", filters=changed))
            assert (shown.overlays, shown.ceiling_db) == (overlays, -2.5 if is_shown else None)
