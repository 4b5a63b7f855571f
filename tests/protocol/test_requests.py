"""What clients send: how it is read, and what a description says of it."""

import math

import pytest
from pydantic import BaseModel, ValidationError

from tonearm.core.crossfade import CrossfadeCurve, CrossfadeEdit
from tonearm.core.errors import BadRequest
from tonearm.core.filters import Echo, FilterChange, Limiter, LowPass
from tonearm.core.overlays import OverlaySettings
from tonearm.core.play_queue import LoopMode
from tonearm.protocol.requests import (
    CrossfadePatch,
    FiltersPatch,
    LoopPatch,
    MetadataPatch,
    NewOverlay,
    NewPlayer,
    NewTrack,
)


def test_absent_fields_take_their_defaults_and_unknown_ones_are_ignored() -> None:
    assert NewTrack.model_validate({"uri": "a.mp3", "more": 1}) == NewTrack(uri="a.mp3", metadata={})
    assert NewPlayer.model_validate({"id": "p", "uri": "a", "metadata": None}).metadata is None
    assert MetadataPatch.model_validate({"value": 1}).merge is True
    assert LoopPatch.model_validate({"mode": "queue"}).mode is LoopMode.QUEUE


def test_only_the_filters_that_are_there_change() -> None:
    assert FiltersPatch.model_validate({}).as_change() == FilterChange()
    assert FiltersPatch.model_validate({"volume": 2}).as_change() == FilterChange(volume=2.0)
    assert FiltersPatch.model_validate({"eq": []}).as_change() == FilterChange(gains=())
    change = FiltersPatch.model_validate({"eq": [{"band": 99, "gain_db": -1, "q": 1}]}).as_change()
    assert change == FilterChange(gains=((99, -1.0),))  # its range is the core's matter


def test_lavalinks_equalizer_sets_the_same_bands() -> None:
    body = {"equalizer": [{"band": 0, "gain": 0.25}, {"band": 1, "gain": -0.25}, {"band": 2, "gain": 0}]}
    gains = dict(FiltersPatch.model_validate(body).as_change().gains or ())
    assert gains == pytest.approx({0: 6.0206, 1: -24.0, 2: 0.0}, abs=1e-4)
    assert FiltersPatch.model_validate({"equalizer": []}).as_change() == FilterChange(gains=())
    for gain in (-0.26, 1.01):
        with pytest.raises(BadRequest, match=r"gain .* is -0\.25 to 1"):
            FiltersPatch.model_validate({"equalizer": [{"band": 0, "gain": gain}]}).as_change()
    with pytest.raises(BadRequest, match="`eq` and `equalizer`"):
        FiltersPatch.model_validate({"eq": [], "equalizer": []}).as_change()


def test_only_what_is_there_of_a_crossfade_changes_and_an_overlay_has_the_defaults_of_what_is_absent() -> None:
    assert CrossfadePatch.model_validate({}).as_edit() == CrossfadeEdit()
    body = {"durationMs": 5_000, "curve": "linear", "onSkip": False}
    edit = CrossfadeEdit(5_000, CrossfadeCurve.LINEAR, on_skip=False)
    assert CrossfadePatch.model_validate(body).as_edit() == edit
    assert NewOverlay.model_validate({"uri": "a"}).as_settings() == OverlaySettings(1.0, -12.0, 150)
    body = {"encoded": "x", "volume": 5, "duckDb": -60, "fadeMs": 2000, "startMs": 1, "endMs": 2}
    assert NewOverlay.model_validate(body).as_settings() == OverlaySettings(5.0, -60.0, 2_000)
    for field, values in {"volume": (-0.1, 5.01, math.nan), "duckDb": (0.1, -61), "fadeMs": (-1, 2001)}.items():
        for value in values:
            with pytest.raises(BadRequest, match="must lie between"):
                NewOverlay.model_validate({field: value}).as_settings()


def test_effects_are_read_by_their_names_and_null_is_off() -> None:
    change = FiltersPatch.model_validate(
        {"lowPass": {"frequencyHz": 300}, "limiter": {"enabled": True}, "karaoke": None, "echo": {"decay": 2}}
    ).as_change()
    assert change == FilterChange(
        effects={
            "low_pass": LowPass(frequency_hz=300.0),
            "limiter": Limiter(enabled=True),
            "karaoke": None,
            "echo": Echo(decay=2.0),  # its range is the core's matter
        }
    )
    assert FiltersPatch.model_validate({"reset": True}).as_change() == FilterChange(resets=True)
    with pytest.raises(BadRequest, match="smoothing or frequencyHz, not both"):
        FiltersPatch.model_validate({"lowPass": {"frequencyHz": 300, "smoothing": 5}}).as_change()


def test_no_value_is_taken_for_another_kind() -> None:
    bodies_of: dict[type[BaseModel], list[object]] = {
        CrossfadePatch: [{"durationMs": "1"}, {"durationMs": 1.5}, {"curve": "steep"}, {"onSkip": 1}],
        NewOverlay: [{"volume": "1"}, {"duckDb": None}, {"fadeMs": 1.5}, {"uri": 1}, {"volume": True}],
        FiltersPatch: [
            *({"karaoke": 1}, {"tremolo": {"depth": True}}, {"tremolo": {"depth": None}}, {"reset": 1}),
            *(
                {"lowPass": {"frequencyHz": None}},
                {"limiter": {"enabled": "true"}},
                {"normalization": {"mode": "album"}},
            ),
        ],
    }
    for model, bodies in bodies_of.items():
        for body in bodies:
            with pytest.raises(ValidationError):
                model.model_validate(body)
