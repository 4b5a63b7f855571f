"""What strangers wrote steers neither terminal nor log."""

from tonearm.core.printable import one_line, printable


def test_titles_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2Jb\r\nc\u202ed") == "a [2Jb  c d"


def test_one_line_has_no_blanks_but_single_ones() -> None:
    assert one_line("  a\t\tb \r\n c\x00") == "a b c"
