"""The status on terminals and elsewhere."""

import io
import os
from collections.abc import Iterator

import pytest
from rich.cells import cell_len

from tests.support.environment import variables
from tests.support.listened_node import seen, track
from tonearm.commands.listen_display import Display, MeterReading, PlayerView


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
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    display = Display(stream)
    for _ in range(2):
        display.show(view("Song"), MeterReading((-6.0, -60.0), -5.8, -14.24), 3)
    stream.seek(0)
    assert stream.read() == (
        "playing 1:02:05 / 1:06:40  Song  ██████████████░░ ░░░░░░░░░░░░░░░░   -5.8 dBTP  -14.2 LUFS  late 3\n"
    )


@pytest.mark.parametrize(("true_peak_db", "shown"), [(-5.8, "limit -1.0 dB"), (-1.04, "limit -1.0 dB reached")])
def test_a_limiter_that_is_on_shows_where_it_holds_the_peaks_and_whether_they_come_there(
    true_peak_db: float, shown: str
) -> None:
    stream = io.StringIO()
    limited = view("Song")
    limited.follow(seen("FiltersChange", filters={"limiter": {"ceilingDb": -1, "enabled": True}}))
    Display(stream).show(limited, MeterReading((-6.0, -6.0), true_peak_db, -14.24), 0)
    assert f" dBTP  -14.2 LUFS  {shown}  late 0" in stream.getvalue()


def test_overlays_that_sound_are_counted() -> None:
    stream = io.StringIO()
    busy = view("Song")
    busy.follow(seen("OverlayStart", overlayId="jingle"))
    busy.follow(seen("OverlayStart", overlayId="news"))
    Display(stream).show(busy, MeterReading((-6.0, -6.0), -5.8, -14.24), 0)
    assert "LUFS  limit -1.0 dB  +2 over it  late 0" in stream.getvalue()


def test_silence_has_dashes() -> None:
    stream = io.StringIO()
    Display(stream).show(view("Song"), MeterReading(), 0)
    assert "   --  dBTP    --  LUFS  late 0" in stream.getvalue()


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


@pytest.mark.parametrize("columns", [80, 50, 40])
def test_the_columns_of_a_pipe_are_kept_and_have_twelve_letters_of_the_title(columns: int) -> None:
    stream = io.StringIO()
    with variables(COLUMNS=str(columns)):
        Display(stream).show(view("Twelve letters and more of it"), MeterReading((0.0, -6.0), -5.8, -14.24), 0)
    assert len(stream.getvalue()) == columns + 1
    if columns > 40:
        assert "  Twelve lette..." in stream.getvalue()
