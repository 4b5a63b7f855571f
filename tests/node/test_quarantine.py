import asyncio
import gc

import pytest

from tests.support.fetching import opener
from tests.support.hand_time import HandTime
from tests.support.shelf import Shelf
from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.opened_source import OpenedSource
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.node.quarantine import (
    DEATHS_TO_TRIAL,
    MAX_SUSPECTS,
    MOST_ACQUITTALS,
    QUARANTINE_S,
    REST_S,
    Quarantine,
    QuarantinedOpener,
)


def died_twice(quarantine: Quarantine, source: str, now_s: float = 0.0) -> None:
    for moment_s in (now_s, now_s + 0.5):
        quarantine.suspect(source, moment_s)
        quarantine.note_open(source)


def test_after_two_deaths_a_source_is_tried_before_anybody_is_told_that_it_is_bad() -> None:
    quarantine = Quarantine()
    assert not quarantine.needs_trial("a", 0.0)
    quarantine.suspect("a", 0.0)
    assert not quarantine.needs_trial("a", 1.0)
    quarantine.note_open("a")
    quarantine.suspect("a", 10.0)
    assert quarantine.needs_trial("a", 10.0)
    assert not quarantine.is_quarantined("a", 10.0)
    assert not quarantine.needs_trial("b", 10.0)


def test_a_source_that_ends_a_process_alone_is_quarantined_for_an_hour() -> None:
    quarantine = Quarantine()
    died_twice(quarantine, "a")
    quarantine.tried("a", 10.0, ended_its_process=True)
    assert quarantine.is_quarantined("a", 10.0)
    assert quarantine.is_quarantined("a", 10.0 + QUARANTINE_S - 1)
    assert not quarantine.needs_trial("a", 11.0)
    assert not quarantine.is_quarantined("b", 10.0)
    assert not quarantine.is_quarantined("a", 10.0 + QUARANTINE_S)


def test_a_source_that_does_no_harm_alone_is_as_good_as_any_other() -> None:
    quarantine = Quarantine()
    died_twice(quarantine, "a")
    quarantine.tried("a", 1.0, ended_its_process=False)
    assert not quarantine.is_suspect("a", 1.0)
    quarantine.suspect("a", 2.0)
    assert not quarantine.needs_trial("a", 2.0)


@pytest.mark.parametrize("acquittals", range(MOST_ACQUITTALS + 1))
def test_a_source_that_ends_processes_though_it_passed_trials_rests_before_the_next_one(acquittals: int) -> None:
    quarantine = Quarantine()
    for trial in range(acquittals):
        died_twice(quarantine, "a", 10.0 * trial)
        quarantine.tried("a", 10.0 * trial + 1.0, ended_its_process=False)
    died_twice(quarantine, "a", 100.0)
    rests = acquittals == MOST_ACQUITTALS
    assert quarantine.rests("a", 101.0) == rests
    assert quarantine.needs_trial("a", 101.0) != rests
    assert not quarantine.is_quarantined("a", 101.0)
    assert not quarantine.rests("a", 101.0 + REST_S)
    assert quarantine.needs_trial("a", 101.0 + REST_S)
    quarantine.tried("a", 102.0 + REST_S, ended_its_process=False)
    assert not quarantine.is_suspect("a", 103.0 + REST_S)


def test_a_death_while_several_players_have_the_source_counts_once() -> None:
    quarantine = Quarantine()
    for moment_s in (0.0, 0.01, 0.02):
        quarantine.suspect("a", moment_s)
    assert not quarantine.needs_trial("a", 0.02)
    quarantine.note_open("a")
    quarantine.suspect("a", 0.021)  # However soon: a spare process is ready at once.
    assert quarantine.needs_trial("a", 1.0)


def test_after_its_time_a_source_starts_anew() -> None:
    quarantine = Quarantine()
    died_twice(quarantine, "a")
    quarantine.suspect("a", QUARANTINE_S + 1)
    assert not quarantine.needs_trial("a", QUARANTINE_S + 1)


def test_a_death_long_ago_is_forgotten() -> None:
    quarantine = Quarantine()
    for moment_s in (0.0, QUARANTINE_S + 1):
        quarantine.note_open("a")
        quarantine.suspect("a", moment_s)
    assert not quarantine.needs_trial("a", QUARANTINE_S + 1)


def test_only_so_many_sources_are_remembered() -> None:
    quarantine = Quarantine()
    for source in ("first", "kept"):
        died_twice(quarantine, source)
    for number in range(MAX_SUSPECTS - 1):
        quarantine.suspect(f"other {number}", 1.0)
    assert not quarantine.needs_trial("first", 1.0)
    assert quarantine.needs_trial("kept", 1.0)


@pytest.mark.parametrize("askers_stay", [True, False])
async def test_a_trial_that_goes_wrong_is_told_once_and_no_harm_whoever_still_waits(
    shelf: Shelf, caplog: pytest.LogCaptureFixture, askers_stay: bool
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def trial(uri: SourceUri) -> bool:
        begun.set()
        await goes_on.wait()
        raise RuntimeError("no trial today")

    async with opener() as source_opener:
        quarantined = QuarantinedOpener(source_opener, trial)
        uri = parse_source_uri(shelf.song(0.1)[0])

        async def ask() -> None:
            opened = await quarantined.open(uri, lambda wait: None)
            assert isinstance(opened, OpenedSource)
            await opened.close()

        for _ in range(DEATHS_TO_TRIAL):
            await ask()
            quarantined.add(uri)
        askers = [asyncio.create_task(ask()) for _ in range(2)]
        await begun.wait()
        if not askers_stay:
            for asker in askers:
                asker.cancel()
            await asyncio.wait(askers)
        goes_on.set()
        if askers_stay:
            await asyncio.gather(*askers)
        await ask()  # without another trial
        await quarantined.stop()
    gc.collect()
    (told,) = caplog.records
    assert told.name == "tonearm.node.quarantine"
    caplog.clear()


async def test_nobody_is_told_that_a_source_is_bad_that_did_no_harm_alone(shelf: Shelf) -> None:
    trials: list[SourceUri] = []
    time = HandTime()

    async def trial(uri: SourceUri) -> bool:
        trials.append(uri)
        return False

    async with opener() as source_opener:
        quarantined = QuarantinedOpener(source_opener, trial, time.now_s)
        uri = parse_source_uri(shelf.song(0.1)[0])

        async def ask() -> None:
            opened = await quarantined.open(uri, lambda wait: None)
            assert isinstance(opened, OpenedSource)
            await opened.close()

        for _ in range(DEATHS_TO_TRIAL * (MOST_ACQUITTALS + 1)):
            await ask()
            quarantined.add(uri)
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
