"""A player is given up at a frame, and goes on from its record with the very next sample."""

import pytest

from tests.player.test_cuts import CLIP_SAMPLES, SHORT_FRAMES, Bench, samples_of
from tests.support.pcm import channels
from tests.support.player_bench import PlayerBench
from tests.support.saved import state_out
from tests.support.sinks import MemoryEventClient, MemoryListener
from tests.support.tracks import make_track
from tonearm.core.errors import BadRequest
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.core.metadata import Json
from tonearm.core.overlays import OverlaySettings
from tonearm.core.playback_requests import Requests
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.decoder.messages import FIRST_OVERLAY_SOURCE
from tonearm.player.player import Player
from tonearm.protocol.framing import CloseCode
from tonearm.protocol.saved_state import read_state
from tonearm.worker.mixing.voices import GLIDE_SAMPLES

SETTINGS = OverlaySettings(duck_db=-20.0, fade_ms=40)
RISE_SAMPLES = GLIDE_SAMPLES + SETTINGS.fade_ms * 48


class VoiceOfTests:
    """Lives beside a player."""

    def __init__(self, record: Json) -> None:
        self._record = record
        self.told: list[CloseCode] = []

    def record(self) -> Json:
        return self._record

    def player_ended(self, code: CloseCode) -> None:
        self.told.append(code)


def takes_over(bench: PlayerBench, snapshot: PlayerSnapshot) -> MemoryListener:
    """The player goes on from what is written, and somebody listens from its first frame on."""
    over_the_wire = read_state(state_out(snapshot, 5))[1]
    bench.player = Player("p", None, {}, bench.services, snapshot=over_the_wire)
    listener = MemoryListener()
    bench.player.attach(listener)
    return listener


async def test_music_and_overlay_go_on_with_the_next_sample() -> None:
    bench = Bench("a", frames=SHORT_FRAMES)
    await bench.sound()
    bench.player.add_overlays((make_track("bell"), SETTINGS))
    await bench.pump()
    await bench.ticks(12)
    before = bench.listener
    for _ in range(2):  # what was handed over is handed over again
        record = bench.player.give_up("test")
        await bench.player.close()
        assert record.handover is not None
        heard = len(before)
        await bench.ticks(5)
        assert len(before) == heard, "it stops at that frame"
        assert before.closed == [(CloseCode.MOVED, "test")]
        after = takes_over(bench, record)
        await bench.pump()
        bench.decode(60 * FRAME_SAMPLES)
        await bench.ticks(8)
        # The overlay does not wait for the music.
        played = (bench.player.status().position_ms - record.position_ms) * 48
        music = channels(after.pcm)[-played:, 1]
        assert len(music) >= 6 * FRAME_SAMPLES
        sample = record.handover.sample
        assert sample is not None
        ducked = samples_of(1, sample, len(music))[RISE_SAMPLES:, 1] / 10
        assert abs(music[RISE_SAMPLES:] - ducked).max() <= 1
        bell = channels(after.pcm)[GLIDE_SAMPLES:, 0]
        at = record.handover.overlays[0].position_ms * 48 + GLIDE_SAMPLES
        assert abs(bell - samples_of(FIRST_OVERLAY_SOURCE, at, len(bell))[:, 0]).max() <= 1
        before = after
    await bench.ticks(CLIP_SAMPLES // FRAME_SAMPLES)
    assert bench.player.status().overlays == ()
    written = state_out(bench.player.record(), 5)
    assert written["current"] is not None
    for track_id, words in ((written["current"], "overlays"), ("nowhere", "nowhere")):
        with pytest.raises(BadRequest, match=words):
            read_state({**written, "overlays": [{"trackId": track_id, "position": 0}]})


async def test_followers_are_told_no_end_and_what_lives_beside_the_player_goes_with_it_to_the_very_sample() -> None:
    bench = PlayerBench("a", "b")
    bench.start()
    bench.audio(10, 30, position=16_001)
    bench.tick(20)
    voice, other, again = (VoiceOfTests({"channelId": channel}) for channel in "123")
    leave = bench.player.accompany("voice", voice)
    bench.player.accompany("other", other)()
    told = list(bench.events.ops)
    life, seq = bench.player.life, bench.player.status().last_seq
    record = bench.player.give_up("it moves")
    await bench.player.close()
    assert bench.events.ops == told
    assert bench.events.closed == [(CloseCode.MOVED, "it moves")]
    assert (voice.told, other.told) == ([CloseCode.MOVED], [])
    assert record.handover is not None
    assert (record.handover.life, record.handover.seq, record.handover.frames) == (life, seq, len(bench.listener))
    assert record.handover.sample is not None
    assert record.handover.sample % 48, "between two milliseconds"
    leave()
    takes_over(bench, record)
    await bench.settle()
    assert list(bench.started_at.values()) == [record.handover.sample]
    player = bench.player
    assert player.snapshot().companions == {"voice": {"channelId": "1"}}, "until it comes back"
    player.accompany("voice", again)
    assert player.snapshot().companions == {"voice": {"channelId": "3"}}
    events = MemoryEventClient()
    player.subscribe(events, None, False)
    player.do(Requests.stop)
    await player.delete()
    assert again.told == [CloseCode.DELETED]
    assert events.ops[-1] == "PlayerDelete"
