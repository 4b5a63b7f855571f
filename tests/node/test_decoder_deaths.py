"""Decoder processes die, and the sound goes on with the right sample; what becomes of sources at which they died."""

import asyncio
import gc

import pytest

from tests.support.audio_files import flac, music, pcm_of, wav
from tests.support.eventually import eventually
from tests.support.fetching import opener
from tests.support.hand_time import HandTime
from tests.support.media_server import MediaServer, in_turn, media, redirect, status
from tests.support.node_in_process import heard_whole, listening, padded
from tests.support.processes import crash_at_work
from tests.support.shelf import Shelf
from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.opened_source import OpenedSource
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.node.node import Node
from tonearm.node.quarantine import (
    DEATHS_TO_TRIAL,
    MAX_SUSPECTS,
    MOST_ACQUITTALS,
    QUARANTINE_S,
    REST_S,
    Quarantine,
    QuarantinedOpener,
)


async def test_after_a_kill_the_sound_goes_on_with_the_right_sample(
    node: Node, shelf: Shelf, server: MediaServer
) -> None:
    signals = [music(1.3, seed=seed) for seed in range(4)]
    uris = [
        shelf.put("song.wav", wav(signals[0])),
        shelf.put("song.flac", flac(signals[1])),
        # A link that is good for once only, as those that pages give: what is open is not resolved again.
        server.serve("/link.wav", in_turn(redirect(server.url("/ranges.wav")), status(410))),
        server.serve("/none.wav", media(wav(signals[3]), ranges=False)),
    ]
    server.serve("/ranges.wav", media(wav(signals[2])))
    players = [await listening(node, f"p{number}", uri) for number, uri in enumerate(uris)]
    await asyncio.gather(*(player.listener.wait_frames(15) for player in players))
    killed = players[0].kill_decoder()
    await asyncio.gather(*(player.wait_state("idle") for player in players))
    for player, signal_heard in zip(players, signals, strict=True):
        assert player.listener.pcm == padded(pcm_of(signal_heard))
        assert [reason for _, reason in player.ends] == ["finished"]
        assert len(player.starts) == 1
        assert player.failures == []
        assert player.quality["decoderProcess"] != killed
    assert sum(request.path == "/link.wav" for request in server.requests) == 1


async def test_a_kill_at_any_time_of_a_queue_loses_and_doubles_no_sample(node: Node, shelf: Shelf) -> None:
    songs = [shelf.song(seconds) for seconds in (0.431, 0.367, 0.41, 0.389)]
    player = await listening(node, "p", *(uri for uri, _ in songs))
    for frames in (19, 26, 48):
        await player.listener.wait_frames(frames)
        killed = player.kill_decoder()
        await player.moved(killed)
    await player.wait_state("idle")
    assert player.ends == [(f"song{number}", "finished") for number in range(1, 5)]
    heard_whole(player.listener.pcm, *(pcm for _, pcm in songs))


async def test_a_good_source_at_which_processes_crashed_is_tried_alone_and_plays_on(
    node: Node, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    uri = shelf.put("good.flac", flac(music(20.0)))
    # Two deaths at work lead to a trial. Now and then a process ends what it does before the signal ends it.
    for death in range(20):
        players = [await listening(node, f"p{death}.{number}", uri) for number in range(20)]
        await eventually(lambda: any(p.state["track"]["info"]["length"] for p in players), "it is opened")  # noqa: B023
        if "played alone it did no harm" in caplog.text:
            break
        (process,) = node._pool._in_use
        await crash_at_work(process)
        await players[0].moved(process.pid)
        for player in players:
            await node.delete_player(player.id)
    assert "played alone it did no harm" in caplog.text
    last = await listening(node, "last", uri)
    await last.listener.wait_frames(20)
    assert [player.failures for player in (*players, last)] == [[]] * 21


def died_twice(quarantine: Quarantine, source: str, now_s: float = 0.0) -> None:
    for moment_s in (now_s, now_s + 0.5):
        quarantine.suspect(source, moment_s)
        quarantine.note_open(source)


def test_after_two_deaths_a_source_is_tried_and_if_it_ends_a_process_alone_it_is_quarantined_for_an_hour() -> None:
    quarantine = Quarantine()
    assert not quarantine.needs_trial("a", 0.0)
    for moment_s in (0.0, 0.01, 0.02):  # one death, while several players have the source
        quarantine.suspect("a", moment_s)
    assert not quarantine.needs_trial("a", 0.02)
    quarantine.note_open("a")
    quarantine.suspect("a", 0.021)  # however soon: a spare process is ready at once
    assert quarantine.needs_trial("a", 1.0)
    assert not quarantine.is_quarantined("a", 1.0)
    assert not quarantine.needs_trial("b", 1.0)
    quarantine.tried("a", 10.0, ended_its_process=True)
    for now_s in (10.0, 10.0 + QUARANTINE_S - 1):
        assert quarantine.is_quarantined("a", now_s)
        assert not quarantine.needs_trial("a", now_s)
    assert not quarantine.is_quarantined("b", 10.0)
    assert not quarantine.is_quarantined("a", 10.0 + QUARANTINE_S)
    quarantine.suspect("a", 10.0 + QUARANTINE_S)  # and it starts anew
    assert not quarantine.needs_trial("a", 10.0 + QUARANTINE_S)


def test_a_source_that_does_no_harm_alone_is_as_good_as_any_other_and_rests_after_some_trials() -> None:
    quarantine = Quarantine()
    for trial in range(MOST_ACQUITTALS):
        died_twice(quarantine, "a", 10.0 * trial)
        assert quarantine.needs_trial("a", 10.0 * trial + 1.0)
        assert not quarantine.rests("a", 10.0 * trial + 1.0)
        quarantine.tried("a", 10.0 * trial + 1.0, ended_its_process=False)
        assert not quarantine.is_suspect("a", 10.0 * trial + 1.0)
    died_twice(quarantine, "a", 100.0)
    assert quarantine.rests("a", 101.0)
    assert not quarantine.needs_trial("a", 101.0)
    assert not quarantine.is_quarantined("a", 101.0)
    assert not quarantine.rests("a", 101.0 + REST_S)
    assert quarantine.needs_trial("a", 101.0 + REST_S)
    quarantine.tried("a", 102.0 + REST_S, ended_its_process=False)
    assert not quarantine.is_suspect("a", 103.0 + REST_S)


def test_a_death_long_ago_is_forgotten_and_only_so_many_sources_are_remembered() -> None:
    quarantine = Quarantine()
    for moment_s in (0.0, QUARANTINE_S + 1):
        quarantine.note_open("a")
        quarantine.suspect("a", moment_s)
    assert not quarantine.needs_trial("a", QUARANTINE_S + 1)
    quarantine = Quarantine()
    for source in ("first", "kept"):
        died_twice(quarantine, source)
    for number in range(MAX_SUSPECTS - 1):
        quarantine.suspect(f"other {number}", 1.0)
    assert not quarantine.needs_trial("first", 1.0)
    assert quarantine.needs_trial("kept", 1.0)


async def test_trials_that_go_wrong_or_are_passed_are_no_harm_and_a_source_that_passed_them_is_not_called_bad(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    begun, goes_on, time = asyncio.Event(), asyncio.Event(), HandTime()
    trials: list[SourceUri] = []

    async def trial(uri: SourceUri) -> bool:
        trials.append(uri)
        begun.set()
        await goes_on.wait()
        if len(trials) == 1:
            raise RuntimeError("no trial today")
        return False

    async with opener() as source_opener:
        quarantined = QuarantinedOpener(source_opener, trial, time.now_s)
        uri = parse_source_uri(shelf.song(0.1)[0])

        async def ask() -> None:
            opened = await quarantined.open(uri, lambda wait: None)
            assert isinstance(opened, OpenedSource)
            await opened.close()

        async def dies_on(times: int) -> None:
            for _ in range(times):
                await ask()
                quarantined.add(uri)

        await dies_on(DEATHS_TO_TRIAL)
        askers = [asyncio.create_task(ask()) for _ in range(2)]
        await begun.wait()
        for asker in askers:
            asker.cancel()
        await asyncio.wait(askers)
        goes_on.set()
        await ask()
        await ask()  # without another trial
        assert len(trials) == 1
        await dies_on(DEATHS_TO_TRIAL * MOST_ACQUITTALS)
        with pytest.raises(PlayError) as told:
            await ask()
        assert told.value.failure.code is FailureCode.QUARANTINED
        assert "not when it was alone" in told.value.failure.message
        assert "damaged" not in told.value.failure.hint
        assert len(trials) == MOST_ACQUITTALS
        time.forward(REST_S)
        await ask()
        assert len(trials) == MOST_ACQUITTALS + 1
        await quarantined.stop()
    gc.collect()
    (logged,) = caplog.records  # once, though nobody waited any more
    assert logged.name == "tonearm.node.quarantine"
    caplog.clear()
