"""What the head of a stream says of its station, whatever stands in the configuration and the metadata."""

import pytest

from tonearm.core.frame import PCM, Output, mp3_output
from tonearm.core.metadata import Json
from tonearm.server.audio_settings import Station, icy_headers

MP3 = mp3_output(128_000)
NODE = Station("Attic Radio", "jazz", "https://attic.example/")


def test_the_player_goes_before_the_node_and_both_before_the_id() -> None:
    assert icy_headers(NODE, "p", {}, MP3) == {
        "icy-name": "Attic Radio", "icy-genre": "jazz", "icy-url": "https://attic.example/", "icy-br": "128",
    }  # fmt: skip
    own: Json = {"station": {"name": "Cellar", "url": "https://cellar.example/"}, "guild": 81}
    assert icy_headers(NODE, "p", own, Output("opus", 96_000)) == {
        "icy-name": "Cellar", "icy-genre": "jazz", "icy-url": "https://cellar.example/", "icy-br": "96",
    }  # fmt: skip
    assert icy_headers(Station(), "p", {}, PCM) == {"icy-name": "tonearm p", "icy-br": "1536"}


@pytest.mark.parametrize("metadata", [None, 5, [], "station", {"station": None}, {"station": ["a"]}, {"station": {}}])
def test_metadata_of_any_other_kind_say_nothing(metadata: Json) -> None:
    assert icy_headers(NODE, "p", metadata, MP3)["icy-name"] == "Attic Radio"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("Näher\r\nSet-Cookie: a=b", "Näher Set-Cookie: a=b"),
        ("a\x00b\x1b[31m\x7f", "a b [31m"),
        ("\ud800half", "half"),
        ("  東京  FM ", "東京 FM"),
        ("x" * 100_000, "x" * 200),
        (7, "Attic Radio"),
        (" \r\n", "Attic Radio"),
    ],
)
def test_nothing_in_a_text_ends_the_header(given: Json, said: str) -> None:
    assert icy_headers(NODE, "p", {"station": {"name": given}}, MP3)["icy-name"] == said
