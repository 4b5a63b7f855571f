from urllib.parse import quote

import pytest
from lavalink.utils import decode_track as decode_as_client

from tests.core.test_track_codec import VERSION_2, VERSION_3
from tests.support.edge import StillNode
from tests.support.http_client import request, send_json
from tests.support.tracks import FILE_MISSING
from tonearm.core.track_codec import decode_track, encode_track
from tonearm.core.track_info import TrackInfo
from tonearm.protocol.rendering import failure_out, track_out


def song(number: int) -> TrackInfo:
    """Every length of text, so that the base64 ends in every way."""
    return TrackInfo(f"/{'s' * number}.mp3", f"/{number}.mp3", f"Söng {number} 😀>>>???", is_seekable=True)


async def test_a_track_that_loads(node: StillNode, port: int) -> None:
    node.lookup.answer = song(1)
    answer = await request(port, "GET", "/v0/loadtracks?identifier=http%3A%2F%2Fradio.example%2F%C3%A4+b")
    assert answer.status == 200
    assert answer.json() == {"loadType": "track", "data": track_out(song(1), {})}
    assert node.lookup.asked == "http://radio.example/ä b"


async def test_what_does_not_load_is_empty(port: int) -> None:
    for text in ("", "%20", "ytsearch:x", "http://", "http://me:it@127.0.0.1/x", "a%00b", "a" * 5000, "&a" * 49):
        answer = await request(port, "GET", f"/v0/loadtracks?identifier={text}")
        assert (answer.status, answer.json()) == (200, {"loadType": "empty", "data": {}}), text


@pytest.mark.parametrize(
    ("target", "code"),
    [
        *((f"loadtracks{query}", "bad_request") for query in ("", "?Identifier=x", "?identifier=a&identifier=a")),
        *((f"loadtracks?identifier={query}", "bad_request") for query in ("%FF", "a" + "&a" * 50, "a&explain=yes")),
        *((f"decodetrack{query}", "bad_request") for query in ("", "?encodedTrack=a&encodedTrack=a")),
        *((f"decodetrack?encodedTrack={text}", "invalid_identifier") for text in ("", "!", "%00", VERSION_3[:-8])),
    ],
)
async def test_no_single_readable_identifier_is_400(port: int, target: str, code: str) -> None:
    answer = await request(port, "GET", f"/v0/{target}")
    assert (answer.status, answer.json()["code"]) == (400, code)


async def test_encoded_is_answered_as_given_however_it_was_written(port: int) -> None:
    for number in range(6):
        encoded = encode_track(song(number))
        ways = {encoded, encoded.rstrip("="), encoded.replace("+", "-").replace("/", "_"), encoded.replace("+", " ")}
        answers = [await request(port, "GET", f"/v0/decodetrack?encodedTrack={quote(way, safe='')}") for way in ways]
        answers += [await request(port, "GET", f"/v0/decodetrack?encodedTrack={encoded}")]  # a plus that is one
        assert {answer.json()["encoded"] for answer in answers} == ways
        assert {answer.json()["info"]["title"] for answer in answers} == {f"Söng {number} 😀>>>???"}


async def test_many_keep_their_order(port: int) -> None:
    encoded = [encode_track(song(number % 90)) for number in range(998)]
    encoded[5:5] = [VERSION_2, VERSION_3]
    tracks = (await send_json(port, "POST", "/v0/decodetracks", encoded)).json()
    assert [track["encoded"] for track in tracks] == encoded
    assert tracks[5:7] == [{**track_out(decode_track(one), {}), "encoded": one} for one in encoded[5:7]]
    assert all(decode_as_client(track["encoded"]).title == track["info"]["title"] for track in tracks)
    assert (await send_json(port, "POST", "/v0/decodetracks", [])).json() == []


async def test_of_many_none_is_dropped_and_a_wrong_one_is_named(port: int) -> None:
    no_texts: list[object] = [{"tracks": []}, [1], ["x", ["y"]]]
    wrong: list[tuple[object, int, str, str]] = [
        *(([*[VERSION_2] * 653, bad, bad], 400, "invalid_identifier", "653") for bad in ("", VERSION_3[:-8])),
        *((body, 400, "bad_request", "") for body in no_texts),
        ([VERSION_2, VERSION_2, 7, None], 400, "bad_request", "Entry 2"),
        *(([entry] * 1001, 413, "body_too_large", "1000") for entry in (VERSION_2, 0)),
    ]
    for entries, status, code, words in wrong:
        answer = await send_json(port, "POST", "/v0/decodetracks", entries)
        assert (answer.status, answer.json()["code"]) == (status, code)
        assert words in answer.json()["message"]


async def test_a_decoded_track_can_be_encoded_again(port: int) -> None:
    for encoded in (VERSION_2, VERSION_3):
        track = track_out(decode_track(encoded), {})
        made = (await send_json(port, "POST", "/v0/encodetrack", track)).json()
        assert made["info"] == track["info"]
        assert made["encoded"] == encoded or encoded == VERSION_2
        assert decode_as_client(made["encoded"]).title == made["info"]["title"]


async def test_an_identifier_alone_can_be_encoded(port: int) -> None:
    uri = "http://radio.example/My%20Song.mp3"
    made = (await send_json(port, "POST", "/v0/encodetrack", {"info": {"identifier": uri}})).json()
    assert made == track_out(TrackInfo(uri, uri, "My Song", is_seekable=True), {})
    live = {"identifier": "x:y", "isStream": True, "length": 2**53}
    info = (await send_json(port, "POST", "/v0/encodetrack", {"info": live})).json()["info"]
    assert (info["length"], info["isStream"], info["isSeekable"], info["title"]) == (0, True, False, "x:y")


async def test_what_cannot_be_encoded_is_told(port: int) -> None:
    for identifier, length, words in (
        (" ", 0, "`info.identifier` is empty"),
        ("a", -1, "`info.length`"),
        ("a", 2**63, "`info.length`"),
        ("ä" * 40_000, 0, "at most 65535"),
    ):
        info = {"identifier": identifier, "length": length}
        answer = await send_json(port, "POST", "/v0/encodetrack", {"info": info})
        assert (answer.status, answer.json()["code"], words in answer.json()["message"]) == (400, "bad_request", True)


async def test_an_empty_answer_explains_itself_when_it_is_asked(node: StillNode, port: int) -> None:
    node.lookup.answer = FILE_MISSING
    empty = {"loadType": "empty", "data": {}}
    plain = await request(port, "GET", "/v0/loadtracks?identifier=gone.mp3&explain=false")
    assert plain.json() == empty
    answer = await request(port, "GET", "/v0/loadtracks?identifier=gone.mp3&explain=true")
    assert answer.json() == {**empty, "error": failure_out(FILE_MISSING)}
