"""The status on terminals and elsewhere."""

import io
import os
import pty

import pytest

from tests.support.listened_node import seen, track
from tonearm.commands.listen_display import Display, MeterReading, PlayerView


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
        "playing 1:02:05 / 1:06:40  ██████████████░░ ░░░░░░░░░░░░░░░░   -5.8 dBTP  -14.2 LUFS  late 3  Song\n"
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
        b"playing 1:02:05 (live)  ########........ ########........  -30.0 dBTP  -31.0 LUFS  late 0  ??d?\n"
    )


def test_a_terminal_gets_one_line_drawn_again_that_fits() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        os.set_blocking(ours, False)
        display = Display(stream)
        display.show(view("日本" * 100), MeterReading((0.0, 0.0), 0.0, 0.0), 0)
        drawn = os.read(ours, 4096).decode()
    os.close(ours)
    assert drawn.startswith("\rplaying")
    assert drawn.endswith("\x1b[K")
    assert "\n" not in drawn
    assert len(drawn) < 100


def test_a_stream_that_is_gone_does_not_end_the_listening() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = io.TextIOWrapper(io.FileIO(writing, "w"), encoding="utf-8", write_through=True)
    Display(stream).say("gone")
    stream.detach().close()


class TerminalOf80(io.StringIO):
    """It does not say how many columns it has, so that 80 are taken."""

    def isatty(self) -> bool:
        return True


def test_eighty_columns_have_room_for_everything_and_the_title_is_shortened() -> None:
    stream = TerminalOf80()
    display = Display(stream)
    short, long = view("Song"), view("A song with a name that is longer than the terminal has room for")
    for shown in (short, long):
        display.show(shown, MeterReading((0.0, -6.0), -5.8, -14.24), 0)
    for line in stream.getvalue().split("\x1b[K")[:-1]:
        assert 70 < len(line.removeprefix("\r")) < 80, line
    assert "  late 0  Song\x1b[K" in stream.getvalue()
    assert "  late 0  A song" in stream.getvalue()
    assert "...\x1b[K" in stream.getvalue()
