"""How long sounds are kept that clients send, and how much memory they take."""

import asyncio
from dataclasses import replace

import pytest

from tests.support.hand_time import LoopTime
from tonearm.core.errors import LimitReached
from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.sources.sounds import SoundLimits, Sounds

KIB = 1024
LIMITS = SoundLimits(max_bytes=40 * KIB, total_bytes=100 * KIB, keep_s=600.0)


def kept(sounds: Sounds, size_bytes: int = 40 * KIB) -> SourceUri:
    with sounds.arriving(size_bytes) as sound:
        sound.data = b"s" * size_bytes
    return parse_source_uri(sound.uri, from_client=True)


def is_there(sounds: Sounds, uri: SourceUri) -> bool:
    """Without using it."""
    return uri.path in sounds._sounds


async def test_a_sound_is_kept_for_a_while_after_its_last_use() -> None:
    time, sounds = LoopTime(stands=True), Sounds(LIMITS)
    played, fetched, unused = (kept(sounds, 10) for _ in range(3))
    opened = sounds.open(played)
    time.forward(400.0)
    assert sounds.use(fetched.path)
    time.forward(400.0)
    await passed()
    assert [is_there(sounds, uri) for uri in (played, fetched, unused)] == [True, True, False]
    time.forward(10_000.0)
    await passed()
    assert [is_there(sounds, uri) for uri in (played, fetched)] == [True, False]
    await opened.close()
    time.forward(599.0)
    await passed()
    assert is_there(sounds, played)
    time.forward(2.0)
    await passed()
    with pytest.raises(PlayError) as gone:
        sounds.open(played)
    assert gone.value.failure.code is FailureCode.FILE_MISSING
    assert "kept, in memory only, for 600 s after their last use" in gone.value.failure.hint
    sounds.close()


async def test_the_oldest_that_nobody_uses_makes_room() -> None:
    sounds = Sounds(LIMITS)
    oldest, older = kept(sounds), kept(sounds)
    assert sounds.use(oldest.path)
    newest = kept(sounds)
    assert [is_there(sounds, uri) for uri in (oldest, older, newest)] == [True, False, True]
    readers = [sounds.open(uri) for uri in (oldest, newest)]
    with pytest.raises(LimitReached, match="Sounds in use"):
        kept(sounds)
    with sounds.arriving(20 * KIB), pytest.raises(LimitReached), sounds.arriving(1 * KIB):
        raise AssertionError
    small = kept(sounds, 20 * KIB)
    for reader in readers:
        assert await reader.reader.read_at(10 * KIB, 7) == b"s" * 7  # also of a sound that was forgotten
        await reader.close()
    assert all(is_there(sounds, uri) for uri in (oldest, newest, small))
    assert (sounds.forget(small.path), sounds.forget(small.path)) == (True, False)
    sounds.close()


async def test_a_sound_that_fails_its_trial_costs_no_other_its_place() -> None:
    sounds = Sounds(LIMITS)
    good = [kept(sounds), kept(sounds)]
    with pytest.raises(ZeroDivisionError), sounds.arriving(40 * KIB) as bad:  # noqa: PT012
        bad.data = bytes(40 * KIB)
        opened = sounds.open(parse_source_uri(bad.uri, from_client=True))
        await opened.close()
        raise ZeroDivisionError
    assert all(is_there(sounds, uri) for uri in good)
    assert not sounds.use(bad.id)
    sounds.close()


async def test_ten_thousand_sounds_take_no_more_than_they_may() -> None:
    sounds = Sounds(replace(LIMITS, total_bytes=4096 * KIB))
    uris = [kept(sounds, 1) for _ in range(10_000)]
    assert sum(is_there(sounds, uri) for uri in uris) == 1024  # each counts for 4 KiB
    assert all(is_there(sounds, uri) for uri in uris[-1024:])
    assert (len({uri.path for uri in uris}), {len(uri.path) for uri in uris}) == (10_000, {32})
    sounds.close()


async def passed() -> None:
    """The loop does what is due."""
    for _ in range(3):
        await asyncio.sleep(0)
