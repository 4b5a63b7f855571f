"""The goals of performance, and whether the figures of a run reach them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.figures import Figures, Summary, summary


@dataclass(frozen=True)
class Goal:
    """A figure, or a ratio when there is a figure `below`; the limit is for its median."""

    title: str
    limit: float
    figure: str
    below: str = ""
    unit: str = "times"
    at_least: bool = False


@dataclass(frozen=True)
class Verdict:
    """`measured` is None when the run did not measure it."""

    goal: Goal
    measured: Summary | None

    @property
    def is_reached(self) -> bool | None:
        if self.measured is None:
            return None
        return (
            self.measured.median >= self.goal.limit if self.goal.at_least else self.measured.median <= self.goal.limit
        )


GOALS: Final = (
    Goal("CPU a frame, MP3 flat, 50 players / floor", 1.4, "cost/mp3/flat/us_a_frame", "floor/mp3/us_a_frame"),
    Goal("CPU a frame, MP3 flat, 50 players / relay", 0.35, "cost/mp3/flat/us_a_frame", "cost/mp3/relay/us_a_frame"),
    Goal("CPU a frame, MP3 5 bands, 50 players / floor", 2.2, "cost/mp3/bands/us_a_frame", "floor/mp3/us_a_frame"),
    Goal("capacity, MP3 flat / relay", 3, "capacity/mp3/flat/players", "capacity/mp3/relay/players", at_least=True),
    Goal("CPU a frame at 200 players / at 20", 1.1, "growth/flat/200/us_a_frame", "growth/flat/20/us_a_frame"),
    Goal("memory a player, local MP3, 20 to 200 players", 1.5, "growth/flat/mb_a_player", unit="MB"),
    Goal("node without players, one decoder process", 120, "growth/empty_one_decoder/pss_mb", unit="MB"),
    Goal("first frame, local file, median", 50, "first_frame/file/ms", unit="ms"),
    Goal("first frame, HTTP on loopback, median", 80, "first_frame/http/ms", unit="ms"),
    Goal("filter heard, 100 players, median", 40, "filter_heard/100/ms", unit="ms"),
    Goal("filter heard, 100 players, p95", 60, "filter_heard/100/p95_ms", unit="ms"),
    Goal("seek heard, local file, median", 60, "seek_heard/file/ms", unit="ms"),
    Goal("seek heard, local file, p95", 100, "seek_heard/file/p95_ms", unit="ms"),
    Goal(
        "MP3 to Opus, complexity 5 / PCM + libopus alone",
        1.2,
        "opus/5/node/us_a_frame",
        "opus/5/pcm_and_libopus/us_a_frame",
    ),
    Goal(
        "MP3 to Opus, complexity 10 / PCM + libopus alone",
        1.2,
        "opus/10/node/us_a_frame",
        "opus/10/pcm_and_libopus/us_a_frame",
    ),
    # The encoders of many players, which take turns and sleep, find colder caches than one in a loop.
    *(
        Goal(
            f"MP3 to Opus, complexity {complexity} / PCM + libopus paced",
            1.2,
            f"opus/{complexity}/node/us_a_frame",
            f"opus/{complexity}/pcm_and_libopus_paced/us_a_frame",
        )
        for complexity in (5, 10)
    ),
    # No more than the two: 1.2 is what measuring a difference costs.
    Goal(
        "Opus beside PCM / libopus alone + bare write",
        1.2,
        "opus/second_format/us_a_frame",
        "opus/libopus_and_bare_write/us_a_frame",
    ),
    Goal(
        "Opus beside PCM / libopus paced + bare write",
        1.2,
        "opus/second_format/us_a_frame",
        "opus/libopus_paced_and_bare_write/us_a_frame",
    ),
    Goal("first Opus packet, local file, median", 50, "opus/first_packet/ms", unit="ms"),
    Goal("filter heard, Opus, 25 players, median", 40, "opus/filter_heard/25/ms", unit="ms"),
    Goal("filter heard, Opus, 25 players, p95", 60, "opus/filter_heard/25/p95_ms", unit="ms"),
    Goal("Opus passed through, CPU a frame, 50 players", 40, "passthrough/50/us_a_frame", unit="µs"),
    Goal("Opus passed through, CPU a frame, 200 players", 25, "passthrough/200/us_a_frame", unit="µs"),
    Goal("Opus passed through, memory a player", 0.6, "passthrough/mb_a_player", unit="MB"),
    Goal("capacity, Opus passed through", 1000, "capacity/opus/passthrough/players", unit="players", at_least=True),
    Goal(
        "capacity, Opus passed through / Opus to PCM",
        3,
        "capacity/opus/passthrough/players",
        "capacity/opus/flat/players",
        at_least=True,
    ),
    Goal("overlay heard, 100 players, median", 60, "overlay_heard/100/ms", unit="ms"),
    Goal(
        "further listener of a player / bare write",
        1.2,
        "fanout/further_listener/us_a_frame",
        "fanout/bare_write/us",
    ),
    # Nothing is decoded for nobody, so that filters cannot show either.
    Goal("nobody listens: CPU a frame, with 5 bands", 4, "no_listeners/bands/us_a_frame", unit="µs"),
    Goal("nobody listens: sent, of a frame's 3844 bytes", 0, "no_listeners/bands/sent_bytes_a_frame", unit="bytes"),
    Goal("asleep: CPU a frame in a song of three minutes", 1, "sleep/mp3/later/song_us_a_frame", unit="µs"),
    Goal("figures of 200 players, read each 15 s: share of the node's CPU", 0.5, "watching/share_percent", unit="%"),
    Goal("start-up / its imports", 1.5, "startup/node_listens/ms", "startup/imports_of_serve/ms"),
)


def verdicts(figures: Figures, goals: Sequence[Goal] = GOALS) -> list[Verdict]:
    """A ratio is that of each round, so its spread is that of the comparison and not of the machine."""
    return [
        Verdict(goal, summary(figures.ratios(goal.figure, goal.below) if goal.below else figures.all(goal.figure)))
        for goal in goals
    ]
