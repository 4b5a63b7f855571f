"""What strangers wrote steers neither terminal nor log."""

import time

from tonearm.core.printable import one_line, printable, text_for_logs


def test_titles_cannot_steer_the_terminal_and_are_one_line() -> None:
    assert printable("a\x1b[2Jb\r\nc\u202ed") == "a [2Jb  c d"
    assert one_line("  a\t\tb \r\n c\x00") == "a b c"


TOLD = {
    "https://host:8080/a/b?token=secret": "https://host:8080/a/b",
    "https://host?secret": "https://host",
    "https://user:secret@host/a?x=secret#secret": "https://host/a",
    "HTTP://u:secret@[::1]:80/a?secret": "HTTP://[::1]:80/a",
    "http://host/mail@example.org/x?secret": "http://host/mail@example.org/x",
    "http://a/x?secret is blocked, see https://b/y?secret.": "http://a/x is blocked, see https://b/y",
    "/music/what? now.mp3": "/music/what? now.mp3",
    "GET /a.mp3?token=secret&b=1 HTTP/1.1": "GET /a.mp3 HTTP/1.1",
    "b'/a?secret=1'": "b'/a",
    "one\nline\r\n\tonly": "one line only",
    "\x1b[31mred \udcff": "[31mred",
}


def test_nothing_secret_and_one_line() -> None:
    assert {text: text_for_logs(text) for text in TOLD} == TOLD


def test_a_long_text_takes_no_time_to_speak_of() -> None:
    begun_s = time.process_time()
    for text in ("GET /" + "a." * 100_000 + "/a://", "a://" + "a@" * 100_000, "://" * 100_000):
        text_for_logs(text)
    assert time.process_time() - begun_s < 10
