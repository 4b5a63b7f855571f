"""A node's figures as JSON (`/v0/stats`) and as Prometheus text (`/metrics`).

Names and units follow Prometheus' conventions (prometheus.io, "Metric and label naming"). Labels have few values:
states, formats, causes, codes of failures, kinds of processes. No player and no URI is one.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tonearm.core.figures import NodeFigures
from tonearm.core.json_value import JsonObject

_Label = TypeVar("_Label", bound=str)

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"  # Prometheus' text exposition format


def stats_out(figures: NodeFigures) -> JsonObject:
    """The body of GET /v0/stats."""
    return {
        "version": figures.version,
        "uptime": round(figures.uptime_s * 1000),
        "players": {state.value: count for state, count in figures.players.items()},
        "playersAsleep": figures.players_asleep,
        "playersCreated": figures.players_created,
        "listeners": {name: figures.listeners.get(name, 0) for name in ("pcm", "opus", "mp3")},
        "framesSent": figures.frames_sent,
        "framesLostByListeners": figures.frames_lost,
        "framesLeftOut": figures.frames_left_out,
        "framesLate": {f"over{limit_ms}ms": count for limit_ms, count in figures.frames_late.items()},
        "latePlans": figures.late_plans,
        "listenersClosed": {"tooSlow": figures.closed_too_slow, "failed": figures.closed_failed},
        "timesRunDry": {"source": figures.underruns["source"], "decoder": figures.underruns["decoder"]},
        "trackFailures": {**figures.track_failures},
        "decoderExits": figures.decoder_exits,
        "processes": [
            {
                "kind": process.kind,
                "pid": process.pid,
                "cpuSeconds": round(process.cpu_s, 3),
                "memoryBytes": process.memory_bytes,
                "sessions": process.sessions,
            }
            for process in figures.processes
        ],
    }


def metrics_text(figures: NodeFigures) -> bytes:
    """The body of GET /metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(figures))
    return generate_latest(registry)


class _Figures(Collector):
    def __init__(self, figures: NodeFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        figures = self._figures
        yield _gauge("tonearm_info", "The node's version.", "version", {figures.version: 1})
        yield GaugeMetricFamily("tonearm_uptime_seconds", "Since the node was started.", figures.uptime_s)
        yield _gauge("tonearm_players", "Players by their state.", "state", figures.players)
        yield GaugeMetricFamily(
            "tonearm_players_asleep", "Players that go on by the clock, without a decoder.", figures.players_asleep
        )
        yield _gauge("tonearm_listeners", "Listeners by the form of their audio.", "format", figures.listeners)
        counters = (
            ("tonearm_players_created", "Players that were created.", figures.players_created),
            ("tonearm_frames_sent", "Frames of 20 ms, whether anybody listened or not.", figures.frames_sent),
            ("tonearm_frames_lost", "Frames that listeners were too slow for.", figures.frames_lost),
            ("tonearm_frames_left_out", "Frames that the node was over 200 ms late for.", figures.frames_left_out),
            ("tonearm_late_plans", "Changes that took effect later than meant.", figures.late_plans),
            ("tonearm_decoder_exits", "Decoder processes that ended by themselves.", figures.decoder_exits),
        )
        for name, text, value in counters:
            yield CounterMetricFamily(name, text, value)
        closed = {"too_slow": figures.closed_too_slow, "failed": figures.closed_failed}
        yield _counter("tonearm_listeners_closed", "Listeners that the node closed.", "reason", closed)
        late = {str(limit_ms / 1000): count for limit_ms, count in figures.frames_late.items()}
        yield _counter("tonearm_frames_late", "Frames that were later than so many seconds.", "over", late)
        yield _counter("tonearm_underruns", "Nothing to send in mid-track, by cause.", "cause", figures.underruns)
        yield _counter("tonearm_track_failures", "Tracks that failed, by code.", "code", figures.track_failures)
        cpu = CounterMetricFamily(
            "tonearm_process_cpu_seconds", "CPU time of the processes there are.", labels=("kind", "pid")
        )
        memory = GaugeMetricFamily("tonearm_process_resident_bytes", "Their memory.", labels=("kind", "pid"))
        sessions = GaugeMetricFamily("tonearm_decoder_sessions", "Players that it decodes for.", labels=("pid",))
        for process in figures.processes:
            cpu.add_metric((process.kind, str(process.pid)), process.cpu_s)
            memory.add_metric((process.kind, str(process.pid)), process.memory_bytes)
            if process.kind == "decoder":
                sessions.add_metric((str(process.pid),), process.sessions)
        yield from (cpu, memory, sessions)


def _gauge(name: str, text: str, label: str, values: Mapping[_Label, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for value, count in values.items():
        family.add_metric((value,), count)
    return family


def _counter(name: str, text: str, label: str, values: Mapping[_Label, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=(label,))
    for value, count in values.items():
        family.add_metric((value,), count)
    return family
