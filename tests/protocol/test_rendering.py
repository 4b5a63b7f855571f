"""Every kind of reply and event: its exact JSON, and that it is what the models describe."""

import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from tests.support.tracks import FILE_MISSING, make_status, make_track
from tests.support.wire_check import check_event, check_player
from tonearm.core import events
from tonearm.core.crossfade import CrossfadeCurve, CrossfadeSettings
from tonearm.core.events import Event, EventMessage, PlayerState
from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.filters import BAND_FREQUENCIES_HZ, EFFECT_KINDS, NO_EFFECTS, Effects, Filters, LowPass, Tremolo
from tonearm.core.overlays import OverlaySettings, OverlayState, OverlayStatus
from tonearm.core.play_queue import EndReason, LeftOut, LoopMode, PlayedTrack, QueuedTrack
from tonearm.core.player_status import StateMessage
from tonearm.core.track_codec import decode_track
from tonearm.core.track_info import SourceFacts, TrackInfo
from tonearm.core.voice import (
    DaveStatus,
    PacketCounts,
    VoiceEndpoint,
    VoicePhase,
    VoiceStatus,
    VoiceTarget,
    closed_by_server,
)
from tonearm.protocol import rendering
from tonearm.protocol.event_rendering import event_text
from tonearm.protocol.events import EVENT
from tonearm.protocol.requests import FiltersPatch

TRACK = make_track("a")
FILTERS = Filters(
    volume=2.0,
    gains_db=(6.0, *(0.0,) * 13, -3.0),
    effects=Effects(low_pass=LowPass(frequency_hz=500.0), tremolo=Tremolo(depth=1.0)),
)
TRACK_OUT = {
    "encoded": rendering.track_out(TRACK.info, {})["encoded"],
    "info": {
        "identifier": "http://radio.example/a.mp3",
        "isSeekable": False,
        "author": "",
        "length": 0,
        "isStream": False,
        "position": 0,
        "title": "a",
        "uri": "http://radio.example/a.mp3",
        "artworkUrl": None,
        "isrc": None,
        "sourceName": "http",
    },
    "pluginInfo": {},
    "userData": {"u": 1},
}
FAILURE_OUT = {
    "code": "file_missing",
    "stage": "connect",
    "message": "There is no such file.",
    "hint": "Check the path.",
}
FILTERS_OUT = {
    "volume": 2.0,
    "eq": [
        {"band": band, "frequency_hz": BAND_FREQUENCIES_HZ[band], "gain_db": FILTERS.gains_db[band]}
        for band in range(15)
    ],
    **dict.fromkeys(("timescale", "karaoke", "highPass", "channelMix", "vibrato", "rotation", "distortion", "echo")),
    **dict.fromkeys(("compressor", "normalization")),
    "lowPass": {"frequencyHz": 500.0},
    "tremolo": {"frequency": 2.0, "depth": 1.0},
    "limiter": {"ceilingDb": -1.0, "enabled": "auto"},
}
KNOWN_PART = replace(
    TRACK.with_facts(SourceFacts(5000, is_seekable=True, author="Band", artwork_url="http://x/a.png")),
    start_ms=1000,
    end_ms=2000,
)
PLAYED = PlayedTrack(QueuedTrack(TRACK), 1_700_000_000_000, EndReason.SKIPPED, sounded=True)
VOICE = VoiceStatus(
    VoicePhase.CLOSED,
    VoiceTarget(1, 2, 2**64 - 1, VoiceEndpoint("::1", 443)),
    1_700_000_000_000,
    ssrc=7,
    dave=DaveStatus(1, ready=True, epoch=2, privacy_code="1 2"),
    packets=PacketCounts(3, 4, 5),
    close=closed_by_server(4014, "Disconnected."),
)
VOICE_OUT = {
    "state": "closed",
    "channelId": "2",
    "guildId": "1",
    "userId": "18446744073709551615",
    "endpoint": "[::1]:443",
    "ssrc": 7,
    "mode": None,
    "pingMs": None,
    "resumes": 0,
    "since": 1_700_000_000_000,
    "dave": {"version": 1, "ready": True, "epoch": 2, "privacyCode": "1 2"},
    "packets": {"sent": 3, "silence": 4, "dropped": 5},
    "close": {"code": 4014, "reason": "Disconnected.", "by": "server", "action": "wait"},
}
AT_20_MS = {"trackId": "a", "position": 20}
OF_TRACK = {"track": TRACK_OUT, **AT_20_MS}
EVERY_EVENT: list[tuple[Event, dict[str, object]]] = [
    (events.TrackStart(TRACK, {"u": 1}, 20), {"uri": "http://radio.example/a.mp3", **OF_TRACK}),
    (
        events.TrackEnd(TRACK, {"u": 1}, 20, EndReason.LOAD_FAILED, 10),
        {"reason": "loadFailed", "playedMs": 10, **OF_TRACK},
    ),
    (events.TrackException(TRACK, {"u": 1}, 20, FILE_MISSING), {"error": FAILURE_OUT, **OF_TRACK}),
    (events.TrackStuck(TRACK, {"u": 1}, 20, 9, "silence"), {"thresholdMs": 9, "cause": "silence", **OF_TRACK}),
    (events.StreamTitle("a", "One"), {"title": "One", "trackId": "a"}),
    (events.Seek("a", 5, 20), {"from": 5, **AT_20_MS}),
    (events.SeekFailed("a", "not_seekable", 20), {"code": "not_seekable", **AT_20_MS}),
    (
        events.PlayerUpdate(PlayerState.PLAYING, paused=False, position_ms=20),
        {"state": "playing", "paused": False, "position": 20, "positionRate": 1.0},
    ),
    (events.PlayerPause(20), {"position": 20}),
    (events.PlayerResume(20), {"position": 20}),
    (events.QueueUpdate(3, 9), {"length": 3, "version": 9}),
    (events.QueueDetails(("a", "b")), {"trackIds": ["a", "b"]}),
    (events.PlayerMoved("a", "b"), {"from": "a", "to": "b"}),
    (events.LoopModeChange(LoopMode.QUEUE), {"mode": "queue"}),
    (events.FiltersChange(FILTERS), {"filters": FILTERS_OUT}),
    (
        events.CrossfadeChange(CrossfadeSettings(500, CrossfadeCurve.LINEAR, on_skip=True)),
        {"crossfade": {"durationMs": 500, "curve": "linear", "onSkip": True}},
    ),
    (events.OverlayStart("o"), {"overlayId": "o"}),
    (events.OverlayEnd("o", events.OverlayEndReason.LOAD_FAILED), {"reason": "loadFailed", "overlayId": "o"}),
    (events.OverlayException("o", FILE_MISSING), {"error": FAILURE_OUT, "overlayId": "o"}),
    (events.MetadataChange([None, 1.0]), {"metadata": [None, 1.0]}),
    (events.ListenersChange(2), {"listeners": 2}),
    (events.VoiceState(None), {"voice": None}),
    (events.VoiceState(VOICE), {"voice": VOICE_OUT}),
    (events.PlayerDelete(), {}),
    (events.PlayerDelete(events.DeleteReason.EXPIRED), {"reason": "expired"}),
]


@pytest.mark.parametrize(("event", "fields"), EVERY_EVENT, ids=[type(event).__name__ for event, _ in EVERY_EVENT])
def test_an_event_has_its_head_then_its_own_fields(event: Event, fields: dict[str, object]) -> None:
    text = event_text(EventMessage("p", "1ife", 7, 1_700_000_000_000, event))
    head = {"op": type(event).__name__, "id": "p", "seq": 7, "time": 1_700_000_000_000}
    shown = json.loads(text)
    assert shown == head | fields | {"life": "1ife"}
    assert list(shown)[:4] == list(head)
    check_event(text)


def test_there_is_a_model_for_every_event_and_no_other() -> None:
    models = EVENT.json_schema()["$defs"].values()
    described = {model["properties"]["op"]["const"] for model in models if "op" in model.get("properties", {})}
    kinds = {kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)}
    kinds -= {Event, events.TrackEvent}
    assert described == {"PlayerState", *(kind.__name__ for kind in kinds)}
    assert {type(event) for event, _ in EVERY_EVENT} == kinds - {events.PlayerCreate, events.EventsLost}


def test_a_player_shows_its_overlays() -> None:
    whole = OverlayStatus("a", TRACK, OverlaySettings(2.0, -6.5, 0), OverlayState.LOADING, 0)
    part = OverlayStatus("a", KNOWN_PART, OverlaySettings(), OverlayState.PLAYING, 1_500)
    state = rendering.player_out(replace(make_status("p"), overlays=(whole, part)))
    check_player(state)
    settings = {"volume": 2.0, "duckDb": -6.5, "fadeMs": 0, "startMs": 0}
    place = {"overlayId": "a", "uri": "http://radio.example/a.mp3", "state": "loading", "position": 0, "length": 0}
    others = {"volume": 1.0, "duckDb": -12.0, "fadeMs": 150, "startMs": 1000, "endMs": 2000}
    assert state["overlays"] == [
        place | settings,
        place | {"state": "playing", "position": 1_500, "length": 5000} | others,
    ]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_snapshot_is_the_whole_state_and_says_when_events_are_lost(is_lost: bool) -> None:
    failure = PlayFailure(FailureCode.HTTP_STATUS, Stage.CONNECT, "It said no.", "Ask.", 404)
    status = replace(make_status("p", metadata={"a": 1}, last_seq=4), error=failure if is_lost else None)
    text = event_text(EventMessage("p", "1ife", 4, 9, StateMessage(status, is_lost)))
    check_event(text)
    state = rendering.player_out(status)
    assert json.loads(text) == {"op": "PlayerState", "time": 9, **state, **({"lost": True} if is_lost else {})}
    assert list(json.loads(text))[:5] == ["op", "id", "seq", "time", "track"]
    check_player(state)
    told = {"code": "http_status", "stage": "connect", "message": "It said no.", "hint": "Ask.", "httpStatus": 404}
    assert (state["trackId"], state["life"], state["error"]) == ("a", "1ife", told if is_lost else None)


def test_an_identifier_holds_what_the_track_shows_now() -> None:
    before = rendering.track_out(TRACK.info, {})["encoded"]
    opened = TRACK.with_facts(SourceFacts(5000, is_seekable=True, author="Band", probe_name="mp3"))
    retitled = opened.with_title("Song")
    for track in (opened, retitled):
        encoded = rendering.track_out(track.info, {}, position_ms=20)["encoded"]
        assert isinstance(encoded, str)
        assert encoded != before
        assert decode_track(encoded) == track.info
    assert rendering.track_out(TRACK.info, {}, encoded="given")["encoded"] == "given"


def test_an_identifier_is_kept_no_longer_than_its_track() -> None:
    tracemalloc.start()
    for number in range(100):
        rendering.track_out(TrackInfo(f"/{number}.mp3", f"/{number}.mp3", "x" * 10_000), {})
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 100_000


WAITING_OUT: dict[str, object] = {"id": "a", "uri": TRACK.info.identifier, "metadata": {}}
KNOWN_OUT = {"title": "a", "author": "Band", "length": 5000, "artworkUrl": "http://x/a.png"}


def test_a_small_reply_has_no_more_than_it_needs() -> None:
    queued, details = rendering.track_queued_out, rendering.queued_track_details_out
    for body, expected in (
        (rendering.player_created_out("p"), {"id": "p"}),
        (queued(["1"], LeftOut()), {"trackId": "1"}),
        (queued(["1"], LeftOut(), is_list=True), {"trackId": "1", "trackIds": ["1"]}),
        (queued(["1"], LeftOut(2, ("Why.",)))["leftOut"], {"count": 2, "reasons": ["Why."]}),
        (rendering.queued_track_out(KNOWN_PART), WAITING_OUT),
        (details(TRACK), WAITING_OUT | {"title": "a", "startMs": 0}),
        (details(KNOWN_PART), WAITING_OUT | KNOWN_OUT | {"startMs": 1000, "endMs": 2000}),
        (rendering.played_track_out(PLAYED), WAITING_OUT | {"endedAt": 1_700_000_000_000, "reason": "skipped"}),
        (rendering.load_result_out(None), {"loadType": "empty", "data": {}}),
        (rendering.load_result_out(TRACK.info), {"loadType": "track", "data": TRACK_OUT | {"userData": {}}}),
    ):
        assert body == expected


def test_a_part_of_a_file_says_which_wherever_it_is_shown() -> None:
    for start_ms, end_ms, expected in (
        (0, None, {}),
        (0, 2000, {"startMs": 0, "endMs": 2000}),
        (1000, 2000, {"startMs": 1000, "endMs": 2000}),
    ):
        track = replace(TRACK, start_ms=start_ms, end_ms=end_ms)
        start = json.loads(event_text(EventMessage("p", "1ife", 7, 5, events.TrackStart(track, {}, start_ms))))
        played = rendering.played_track_out(replace(PLAYED, queued_track=QueuedTrack(track)))
        for shown in (start, rendering.player_out(make_status("p", track)), played, rendering.listed_track_out(track)):
            assert {name: shown[name] for name in ("startMs", "endMs") if name in shown} == expected


def test_what_only_those_get_who_follow_all_players() -> None:
    created = event_text(EventMessage("p", "1ife", 0, 5, events.PlayerCreate()))
    assert json.loads(created) == {"op": "PlayerCreate", "id": "p", "time": 5, "life": "1ife"}
    lost = event_text(EventMessage("", "", 0, 5, events.EventsLost()))
    assert json.loads(lost) == {"op": "EventsLost", "time": 5, "lost": True}
    check_event(created)
    check_event(lost)


def test_filters_can_be_sent_back_as_they_were_got() -> None:
    of_each: dict[str, Any] = {name: kind() for name, kind in EFFECT_KINDS.items()}
    wild = Effects(**of_each)
    for effects in (NO_EFFECTS, FILTERS.effects, wild, replace(wild, limiter=None, low_pass=LowPass(smoothing=3.0))):
        filters = replace(FILTERS, effects=effects)
        body = json.loads(json.dumps(rendering.filters_out(filters)))
        assert FiltersPatch.model_validate(body).as_change().applied_to(Filters()) == filters
