import asyncio
import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from lavalink.utils import decode_track as decode_as_client

from tests.core.test_track_codec import VERSION_2, VERSION_3
from tests.support.edge import StillNode
from tests.support.http_client import connected, request, send_json
from tests.support.slow_requests import encoded_emoji
from tests.support.tracks import FILE_MISSING
from tonearm.core.track_codec import encode_track
from tonearm.core.track_info import TrackInfo
from tonearm.protocol.rendering import track_out


def shown(encoded: str, identifier: str, author: str, length: int, title: str, artwork: str | None) -> dict[str, Any]:
    """A track of YouTube, as clients get it."""
    info = {"identifier": identifier, "author": author, "length": length, "title": title, "artworkUrl": artwork}
    info |= {"isSeekable": True, "isStream": False, "position": 0, "isrc": None, "sourceName": "youtube"}
    info |= {"uri": f"https://www.youtube.com/watch?v={identifier}"}
    return {"encoded": encoded, "info": info, "pluginInfo": {}, "userData": {}}


RICK = shown(VERSION_2, "dQw4w9WgXcQ", "RickAstleyVEVO", 212_000, "Rick Astley - Never Gonna Give You Up", None)
DIGGITY = shown(
    *(VERSION_3, "3KL9mRus19o", "Blackstreet", 271_000),
    "Blackstreet - No Diggity (Official Music Video) ft. Dr. Dre, Queen Pen",
    "https://i.ytimg.com/vi/3KL9mRus19o/maxresdefault.jpg",
)


def song(number: int) -> TrackInfo:
    """Every length of text, so that the base64 ends in every way."""
    return TrackInfo(f"/{'s' * number}.mp3", f"/{number}.mp3", f"Söng {number} 😀>>>???", is_seekable=True)


# loadtracks


async def test_a_track_that_loads(node: StillNode, port: int) -> None:
    node.lookup.answer = song(1)
    answer = await request(port, "GET", "/v0/loadtracks?identifier=http%3A%2F%2Fradio.example%2F%C3%A4+b")
    assert answer.status == 200
    assert answer.json() == {"loadType": "track", "data": track_out(song(1), {})}
    assert node.lookup.asked == [("http://radio.example/ä b", False)]


@pytest.mark.parametrize(
    "identifier",
    ["", "%20", "ytsearch:x", "http://", "http://me:it@127.0.0.1/x", "a%00b", "a" * 5000, VERSION_3],
)
async def test_what_does_not_load_is_empty(port: int, identifier: str) -> None:
    answer = await request(port, "GET", f"/v0/loadtracks?identifier={identifier}")
    assert answer.status == 200
    assert answer.json() == {"loadType": "empty", "data": {}}


@pytest.mark.parametrize(
    "query", ["", "?", "?Identifier=x", "?identifier=a&identifier=a", "?identifier=%FF", "?identifier=a" + "&a" * 50]
)
async def test_no_single_readable_identifier_is_400(port: int, query: str) -> None:
    answer = await request(port, "GET", f"/v0/loadtracks{query}")
    assert answer.status == 400
    assert answer.json()["code"] == "bad_request"


async def test_fifty_fields_are_read(port: int) -> None:
    assert (await request(port, "GET", "/v0/loadtracks?identifier=" + "&a" * 49)).status == 200


# decodetrack


@pytest.mark.parametrize("track", [RICK, DIGGITY], ids=["version 2", "version 3"])
async def test_the_known_strings(port: int, track: dict[str, object]) -> None:
    answer = await request(port, "GET", f"/v0/decodetrack?encodedTrack={quote(str(track['encoded']), safe='')}")
    assert answer.status == 200
    assert answer.json() == track


@pytest.mark.parametrize("number", range(6))
async def test_encoded_is_answered_as_given_however_it_was_written(port: int, number: int) -> None:
    encoded = encode_track(song(number))
    ways = {encoded, encoded.rstrip("="), encoded.replace("+", "-").replace("/", "_"), encoded.replace("+", " ")}
    answers = [await request(port, "GET", f"/v0/decodetrack?encodedTrack={quote(way, safe='')}") for way in ways]
    assert {answer.json()["encoded"] for answer in answers} == ways
    assert {answer.json()["info"]["title"] for answer in answers} == {f"Söng {number} 😀>>>???"}


async def test_a_plus_that_was_not_percent_encoded(port: int) -> None:
    encoded = next(encoded for encoded in map(encode_track, map(song, range(9))) if "+" in encoded)
    answer = await request(port, "GET", f"/v0/decodetrack?encodedTrack={encoded}")
    assert answer.status == 200
    assert answer.json()["encoded"] == encoded


async def test_a_plain_uri_in_base64(port: int) -> None:
    encoded = base64.b64encode(b"http://radio.example/live/song.mp3").decode()
    track = (await request(port, "GET", f"/v0/decodetrack?encodedTrack={encoded}")).json()
    assert track["info"]["title"] == "song"
    assert track["info"]["sourceName"] == "direct"
    assert track["info"]["uri"] == "http://radio.example/live/song.mp3"


async def test_a_stream_is_not_seekable(port: int) -> None:
    encoded = encode_track(TrackInfo("http://r.example/", "http://r.example/", "Radio", is_stream=True))
    info = (await request(port, "GET", f"/v0/decodetrack?encodedTrack={quote(encoded, safe='')}")).json()["info"]
    assert (info["isStream"], info["isSeekable"], info["length"]) == (True, False, 0)


@pytest.mark.parametrize("encoded", ["", "!", "%00", "aGVsbG8=", VERSION_3[:-8], f"{VERSION_3}AAAA", "a" * 20_000])
async def test_what_is_no_identifier_is_400(port: int, encoded: str) -> None:
    answer = await request(port, "GET", f"/v0/decodetrack?encodedTrack={encoded}")
    assert answer.status == 400
    assert answer.json()["code"] == "invalid_identifier"


@pytest.mark.parametrize("query", ["", "?encodedtrack=x", f"?encodedTrack={VERSION_2}&encodedTrack={VERSION_2}"])
async def test_no_single_encoded_track_is_400(port: int, query: str) -> None:
    answer = await request(port, "GET", f"/v0/decodetrack{query}")
    assert answer.status == 400
    assert answer.json()["code"] == "bad_request"


async def test_one_long_identifier(port: int) -> None:
    encoded = encoded_emoji(4000)
    assert 30_000 < len(encoded) < 60_000
    answer = await request(port, "GET", f"/v0/decodetrack?encodedTrack={quote(encoded)}")
    assert answer.json()["encoded"] == encoded


# decodetracks


async def test_many_keep_their_order(port: int) -> None:
    encoded = [encode_track(song(number % 90)) for number in range(998)]
    encoded[5:5] = [VERSION_2, VERSION_3]
    tracks = (await send_json(port, "POST", "/v0/decodetracks", encoded)).json()
    assert [track["encoded"] for track in tracks] == encoded
    assert tracks[5:7] == [RICK, DIGGITY]
    assert all(decode_as_client(track["encoded"]).title == track["info"]["title"] for track in tracks)


async def test_none_of_none(port: int) -> None:
    answer = await send_json(port, "POST", "/v0/decodetracks", [])
    assert answer.status == 200
    assert answer.json() == []


@pytest.mark.parametrize("wrong", ["", "!", "aGVsbG8=", VERSION_3[:-8]])
async def test_a_wrong_entry_is_named(port: int, wrong: str) -> None:
    entries = [VERSION_2] * 700
    entries[653] = entries[655] = wrong
    answer = await send_json(port, "POST", "/v0/decodetracks", entries)
    assert answer.status == 400
    assert answer.json()["code"] == "invalid_identifier"
    assert "653" in answer.json()["message"]


@pytest.mark.parametrize("body", ["null", "{}", '{"tracks":[]}', '"x"', "1", "[1]", "[null]", '["x",["y"]]', "[", ""])
async def test_a_body_of_another_kind_is_400(port: int, body: str) -> None:
    answer = await request(port, "POST", "/v0/decodetracks", body=body.encode())
    assert answer.status == 400
    assert answer.json()["code"] == "bad_request"


async def test_the_message_tells_which_entry_is_no_string(port: int) -> None:
    answer = await send_json(port, "POST", "/v0/decodetracks", [VERSION_2, VERSION_2, 7, None])
    assert answer.status == 400
    assert "Entry 2" in answer.json()["message"]


@pytest.mark.parametrize("entry", [VERSION_2, 0], ids=["good", "wrong"])
async def test_too_many_entries_are_413(port: int, entry: object) -> None:
    answer = await send_json(port, "POST", "/v0/decodetracks", [entry] * 1001)
    assert answer.status == 413
    assert answer.json()["code"] == "body_too_large"
    assert "1000" in answer.json()["message"]


@pytest.mark.parametrize("text_bytes", [120, 1200, 12_000, 60_000])
async def test_encoded_emojis_let_the_loop_turn(port: int, text_bytes: int) -> None:
    identifier = encoded_emoji(text_bytes)
    entries = [identifier] * min(1000, (1 << 20) // (len(identifier) + 4))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with connected(port) as connection:
        connection.send_request("POST", "/v0/decodetracks", body=json.dumps(entries).encode())
        counting = asyncio.create_task(count_turns())
        answer = await connection.read_answer()
        counting.cancel()
    assert [track["encoded"] for track in answer.json()] == entries
    assert turns > len(entries) // 40


async def encoded_of(port: int, body: object) -> Any:
    answer = await request(port, "POST", "/v0/encodetrack", body=json.dumps(body).encode())
    assert answer.status == 200, answer.body
    return answer.json()


class TestEncodetrack:
    @pytest.mark.parametrize("track", [DIGGITY, {**RICK, "encoded": None}])
    async def test_of_a_decoded_track_is_the_same(self, port: int, track: dict[str, Any]) -> None:
        made = await encoded_of(port, track)
        assert made["info"] == track["info"]
        if track["encoded"] is not None:
            assert made["encoded"] == track["encoded"]
        assert decode_as_client(made["encoded"]).title == track["info"]["title"]

    async def test_of_an_identifier_alone(self, port: int) -> None:
        made = await encoded_of(port, {"info": {"identifier": "http://radio.example/My%20Song.mp3"}})
        info = made["info"]
        assert (info["identifier"], info["uri"]) == ("http://radio.example/My%20Song.mp3",) * 2
        assert (info["title"], info["author"], info["length"], info["sourceName"]) == ("My Song", "", 0, "http")
        assert (info["isSeekable"], info["isStream"], info["artworkUrl"], info["isrc"]) == (True, False, None, None)
        assert (made["pluginInfo"], made["userData"]) == ({}, {})

    async def test_of_a_stream(self, port: int) -> None:
        info = (await encoded_of(port, {"info": {"identifier": "x:y", "isStream": True, "length": 2**53}}))["info"]
        assert (info["length"], info["isStream"], info["isSeekable"], info["title"]) == (0, True, False, "x:y")

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ({}, "`info` is missing"),
            ({"info": "x"}, "`info` must be an object"),
            ({"info": {}}, "`info.identifier` is missing"),
            ({"info": {"identifier": " "}}, "`info.identifier` is empty"),
            ({"info": {"identifier": "a", "length": -1}}, "`info.length`"),
            ({"info": {"identifier": "a", "length": 2**63}}, "`info.length`"),
            ({"info": {"identifier": "a", "length": "5"}}, "`info.length` must be a whole number"),
            ({"info": {"identifier": "a", "title": None}}, "`info.title` must be a string"),
            ({"info": {"identifier": "ä" * 40_000}}, "at most 65535"),
            ([], "must be an object"),
        ],
    )
    async def test_of_what_cannot_be_one(self, port: int, body: object, words: str) -> None:
        answer = await request(port, "POST", "/v0/encodetrack", body=json.dumps(body).encode())
        assert (answer.status, answer.json()["code"]) == (400, "bad_request")
        assert words in answer.json()["message"]


async def test_an_empty_answer_explains_itself_when_it_is_asked(node: StillNode, port: int) -> None:
    node.lookup.answer = FILE_MISSING
    plain = await request(port, "GET", "/v0/loadtracks?identifier=gone.mp3&explain=false")
    assert plain.json() == {"loadType": "empty", "data": {}}
    answer = await request(port, "GET", "/v0/loadtracks?identifier=gone.mp3&explain=true")
    assert answer.json() == {
        "loadType": "empty",
        "data": {},
        "error": {
            "code": "file_missing",
            "stage": "connect",
            "message": "There is no such file.",
            "hint": "Check the path.",
        },
    }
    wrong = await request(port, "GET", "/v0/loadtracks?identifier=gone.mp3&explain=yes")
    assert (wrong.status, wrong.json()["code"]) == (400, "bad_request")
