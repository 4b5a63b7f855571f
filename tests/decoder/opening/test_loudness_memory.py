"""What is known of a track's loudness when it is opened again."""

from tests.support.tracks import make_track
from tonearm.core.track_info import MeasuredLoudness
from tonearm.decoder.opening import loudness_memory
from tonearm.decoder.opening.loudness_memory import NO_HINTS, LoudnessMemory


def test_a_measurement_belongs_to_the_track_and_outlives_its_source() -> None:
    memory, song = LoudnessMemory(), make_track("song")
    assert memory.opening(1, song, ()) == NO_HINTS
    memory.measured(1, MeasuredLoudness(-9.0, 2_000))
    memory.measured(1, MeasuredLoudness(-8.0, 4_000))
    memory.closed(1)
    memory.measured(1, MeasuredLoudness(-1.0, 6_000))  # too late
    assert memory.opening(2, song, ()).measured == MeasuredLoudness(-8.0, 4_000)
    assert memory.opening(3, make_track("other"), ()).measured is None


def test_an_album_is_played_when_all_that_is_known_is_of_it() -> None:
    memory = LoudnessMemory()
    first, second, third, single = (make_track(name) for name in ("first", "second", "third", "single"))
    assert memory.opening(1, first, (second, third)).album is None
    memory.opened(1, "Album")
    assert memory.opening(2, second, (third,)).album == "Album"
    memory.opened(2, "Album")
    assert memory.opening(3, third, (first, second)).album == "Album"
    assert memory.opening(4, single, ()).album == "Album"  # its own tags will say that it is of another one
    memory.opened(4, None)
    assert memory.opening(5, first, ()).album is None
    assert memory.opening(6, first, (second, single)).album is None


def test_only_so_much_is_kept() -> None:
    memory = LoudnessMemory()
    tracks = [make_track(str(number)) for number in range(loudness_memory.MAX_TRACKS + 1)]
    for number, track in enumerate(tracks, 1):
        memory.opening(number, track, ())
        memory.measured(number, MeasuredLoudness(-float(number), 2_000))
        memory.closed(number)
    assert memory.opening(0, tracks[0], ()).measured is None
    assert memory.opening(0, tracks[1], ()).measured == MeasuredLoudness(-2.0, 2_000)
