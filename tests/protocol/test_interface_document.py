"""The examples in the pages of the interface are what the node sends."""

import json
import re
from typing import Any

from pydantic import TypeAdapter

from tests.support.readme import INTERFACE
from tests.support.wire_check import check_event, check_model, check_player
from tonearm.core.filters import Filters
from tonearm.core.track_codec import decode_track
from tonearm.protocol.events import EVENT, PublicState
from tonearm.protocol.rendering import filters_out
from tonearm.protocol.replies import Voice
from tonearm.protocol.requests import FiltersPatch, NewOverlay, NewPlayer, VoicePut


def block(page: str, heading: str, number: int = 0) -> str:
    """One of JSON below a heading."""
    section = INTERFACE[page].split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found: str = re.findall(r"```json\n(.*?)```", section, re.DOTALL)[number]
    return found


TRACK, VOICE = block("tracks", "Tracks"), block("voice", "The state").replace("\n", "")


def example(page: str, heading: str, number: int = 0) -> str:
    """The same with what it leaves out."""
    found, filters = block(page, heading, number), filters_out(Filters())
    for short, long in (
        ('"track": {…}', f'"track": {json.dumps(json.loads(TRACK))}'),
        ('"voice": {…}', f'"voice": {VOICE}'),
        ('"filters": {…}', f'"filters": {json.dumps(filters)}'),
        ('[{"band": 0, "frequency_hz": 25, "gain_db": 0.0}, …]', json.dumps(filters["eq"])),
    ):
        found = found.replace(short, long)
    return found


def test_the_answers_are_whole() -> None:
    check_player(json.loads(example("players", "The whole state")))
    check_model(TypeAdapter(PublicState), example("audio", "The public address"))
    check_model(TypeAdapter(Voice), VOICE)
    shown: dict[str, Any] = json.loads(TRACK)
    info = decode_track(shown["encoded"])
    assert (info.title, info.author, info.length_ms) == ("Song", "Ada", shown["info"]["length"])


def test_the_requests_are_some() -> None:
    first, with_settings = example("players", "How a player behaves"), example("players", "How a player behaves", 1)
    assert NewPlayer.model_validate_json(first).uri.endswith("song.mp3")
    assert NewPlayer.model_validate_json(with_settings).track.start_ms == 60_000
    assert NewOverlay.model_validate_json(example("filters", "Overlays")).duck_db == -12
    change = FiltersPatch.model_validate_json(example("filters", "Filters")).as_change()
    assert (change.volume, change.gains) == (0.8, ((0, 4.0),))
    body: str = re.findall(r"```json\n(.*?)```", INTERFACE["voice"], re.DOTALL)[0]
    target, _ = VoicePut.model_validate_json(body).as_target()
    assert (str(target.endpoint), target.bitrate_bps) == ("us-east1.discord.media:443", 64_000)


def test_there_is_an_example_of_each_event() -> None:
    common = {"id": "tour", "seq": 1, "time": 0, "life": "995fc5bc838de12a"}
    check_event(example("events", "Events"))
    shown = set()
    for line in example("events", "Events", 1).splitlines():
        event = json.loads(line)
        check_event(json.dumps(event | common))
        shown.add(event["op"])
    models = EVENT.json_schema()["$defs"].values()
    kinds = {model["properties"]["op"]["const"] for model in models if "op" in model.get("properties", {})}
    assert kinds - {"PlayerState", "PlayerCreate", "EventsLost"} == shown
