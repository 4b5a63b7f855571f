"""The status on terminals and elsewhere."""

import io
import os
import pty

from tonearm.listen.display import Display, PlayerView, printable


def view(title: str, length_ms: int = 25_000, is_stream: bool = False) -> PlayerView:
    shown = PlayerView()
    shown.state, shown.title, shown.position_ms = "playing", title, 3_725_000
    shown.length_ms, shown.is_stream = length_ms, is_stream
    return shown


def test_elsewhere_there_are_plain_lines_and_no_repetition() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    display = Display(stream)
    for _ in range(2):
        display.show(view("Song"), (-6.0, -60.0), 3)
    stream.seek(0)
    assert stream.read() == "playing 1:02:05 / 0:25  ██████████████░░ ░░░░░░░░░░░░░░░░   -6.0 dB  late 3  Song\n"


def test_a_stream_that_knows_ascii_only_gets_ascii() -> None:
    content = io.BytesIO()
    stream = io.TextIOWrapper(content, encoding="ascii")
    Display(stream).show(view("Łódź", is_stream=True), (-30.0, -30.0), 0)
    assert content.getvalue() == b"playing 1:02:05 (live)  ########........ ########........  -30.0 dB  late 0  ??d?\n"


def test_a_terminal_gets_one_line_drawn_again_that_fits() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        os.set_blocking(ours, False)
        display = Display(stream)
        display.show(view("日本" * 100), (0.0, 0.0), 0)
        drawn = os.read(ours, 4096).decode()
    os.close(ours)
    assert drawn.startswith("\rplaying")
    assert drawn.endswith("\x1b[K")
    assert "\n" not in drawn
    assert len(drawn) < 100


def test_titles_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2Jb\r\nc\u202ed") == "a [2Jb  c d"


def test_a_stream_that_is_gone_does_not_end_the_listening() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = io.TextIOWrapper(io.FileIO(writing, "w"), encoding="utf-8", write_through=True)
    Display(stream).say("gone")
    stream.detach().close()
