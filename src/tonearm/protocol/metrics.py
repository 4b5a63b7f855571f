"""A node's figures as JSON (`/v0/stats`) and as Prometheus text (`/metrics`).

Names and units follow Prometheus' conventions (prometheus.io, "Metric and label naming"). Labels have few values:
states, formats, causes, codes of failures, kinds and slots of processes, nodes. No label has a player, a URI or a
process id.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from itertools import accumulate
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tonearm.core.failure import FailureCode
from tonearm.core.figures import (
    LATENESS_S,
    ClusterFigures,
    DecoderWork,
    Lateness,
    NodeFigures,
    ProcessFigures,
    ResolverFigures,
    StateFigures,
)
from tonearm.core.filters import wire_name
from tonearm.core.frame import ListenerKind
from tonearm.core.metadata import Json, JsonObject
from tonearm.core.voice import (
    CLOSES,
    LATE_MS,
    NodeReason,
    PacketCounts,
    VoiceFigures,
    VoicePhase,
    VoiceProcessFigures,
)

_Label = TypeVar("_Label", bound=str)
_FamilyT = TypeVar("_FamilyT", GaugeMetricFamily, CounterMetricFamily)

# Each code counts from 0: Prometheus sees no growth in a counter that begins with its first count.
_NO_FAILURES: Final[Mapping[str, int]] = {code.value: 0 for code in FailureCode}
_FORMATS: Final[tuple[ListenerKind, ...]] = ("pcm", "opus", "mp3", "voice")
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"  # Prometheus' text exposition format


def stats_out(figures: NodeFigures) -> JsonObject:
    """The body of GET /v0/stats."""
    return {
        "version": figures.version,
        "uptime": round(figures.uptime_s * 1000),
        "suspendedMs": round(figures.suspended_s * 1000),
        "players": {state.value: count for state, count in figures.players.items()},
        "playersAsleep": figures.players_asleep,
        "playersWaiting": figures.players_waiting,
        "overloadMs": round(figures.overload_s * 1000),
        "playersCreated": figures.totals.players_created,
        "listeners": {str(name): count for name, count in _listeners(figures).items()},
        "framesSent": figures.totals.frames_sent,
        "framesLostByListeners": figures.totals.frames_lost,
        "framesLeftOut": figures.frames_left_out,
        "framesLate": {f"over{limit_ms}ms": count for limit_ms, count in figures.lateness.frames_late.items()},
        "latePlans": figures.totals.late_plans,
        "listenersClosed": {"tooSlow": figures.totals.closed_too_slow, "failed": figures.totals.closed_failed},
        "timesRunDry": {**_underruns(figures)},
        "trackFailures": {**_track_failures(figures)},
        "fetches": {**_fetches(figures)},
        "decoderExits": figures.decoder_exits,
        "decoderWork": _fields_out(figures.decoder_work),
        "sandbox": {kind: level for kind, level in figures.sandboxes.items() if level},
        **({} if figures.resolver is None else {"resolver": _fields_out(figures.resolver)}),
        **({} if figures.state is None else {"state": _fields_out(figures.state)}),
        **({} if figures.voice is None else {"voice": _voice_out(figures.voice, figures.processes)}),
        "processes": [_fields_out(process) for process in figures.processes],
    }


def _voice_out(voice: VoiceFigures, processes: Iterable[ProcessFigures]) -> JsonObject:
    taken = {process.pid: (round(process.cpu_s, 3), process.memory_bytes) for process in processes}
    processes_out: list[Json] = []
    for process in voice.processes:
        cpu_s, memory_bytes = taken.get(process.pid, (0.0, 0))  # the process may have begun just now
        processes_out.append({**_fields_out(process), "cpuSeconds": cpu_s, "memoryBytes": memory_bytes})
    return {
        "connections": {**_voices(voice)},
        "packets": _fields_out(voice.packets),
        "packetsLate": {f"over{limit_ms}ms": voice.packets_late.get(limit_ms, 0) for limit_ms in LATE_MS},
        "resumes": voice.resumes,
        "reconnects": voice.reconnects,
        "closes": {**voice.closes},
        "handshakeMs": None if voice.handshake_ms is None else round(voice.handshake_ms, 1),
        "longestMlsMs": round(voice.longest_mls_ms, 1),
        "processRestarts": voice.process_restarts,
        "processes": processes_out,
    }


def _voices(voice: VoiceFigures) -> dict[str, int]:
    phases = (phase for phase in VoicePhase if phase is not VoicePhase.NONE)
    return {phase.value: voice.connections.get(phase, 0) for phase in phases}


def _listeners(figures: NodeFigures) -> Mapping[ListenerKind, int]:
    return {name: figures.listeners.get(name, 0) for name in _FORMATS}


def _track_failures(figures: NodeFigures) -> dict[str, int]:
    return {**_NO_FAILURES, **figures.totals.track_failures}


def _fetches(figures: NodeFigures) -> dict[str, int]:
    return {"opened": 0, **_NO_FAILURES, **figures.fetches}


def _underruns(figures: NodeFigures) -> dict[str, int]:
    counts = figures.totals.underruns
    return {"source": counts["source"], "decoder": counts["decoder"], "clock": figures.times_left_out}


def _fields_out(
    figures: DecoderWork | ResolverFigures | StateFigures | ProcessFigures | PacketCounts | VoiceProcessFigures,
) -> JsonObject:
    """All fields by their own names: `write_s` is `writeSeconds`, `is_degraded` is `degraded`."""
    body: JsonObject = {}
    for item in fields(figures):
        value = getattr(figures, item.name)
        name = wire_name(re.sub("_s$", "_seconds", item.name.removeprefix("is_")))
        body[name] = round(value, 3) if isinstance(value, float) else value
    return body


def metrics_text(figures: NodeFigures, cluster: ClusterFigures | None = None) -> bytes:
    """The body of GET /metrics. `cluster`: the cluster as the node sees it; None for a node without a cluster."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(figures, cluster))
    return generate_latest(registry)


class _Figures(Collector):
    def __init__(self, figures: NodeFigures, cluster: ClusterFigures | None) -> None:
        self._figures = figures
        self._cluster = cluster

    def collect(self) -> Iterable[Metric]:
        figures = self._figures
        work = figures.decoder_work
        yield _gauge("tonearm_info", "The node's version.", "version", {figures.version: 1})
        yield GaugeMetricFamily("tonearm_uptime_seconds", "The time since the node was started.", figures.uptime_s)
        yield _gauge("tonearm_players", "Players by their state.", "state", figures.players)
        yield GaugeMetricFamily(
            "tonearm_players_asleep",
            "Players that go on without a decoder, because nobody listens.",
            figures.players_asleep,
        )
        yield GaugeMetricFamily(
            "tonearm_players_waiting", "Players that wait for room in a decoder process.", figures.players_waiting
        )
        yield GaugeMetricFamily(
            "tonearm_overload_seconds", "How long the node has been overloaded.", figures.overload_s
        )
        yield GaugeMetricFamily(
            "tonearm_load_ratio",
            "The share of the last 10 s in which the node was late; 1 when it can take no more players.",
            figures.load,
        )
        yield _gauge("tonearm_listeners", "Listeners by the format of their audio.", "format", _listeners(figures))
        counters = (
            ("tonearm_suspended_seconds", "How long the machine slept.", figures.suspended_s),
            ("tonearm_players_created", "Players that were created.", figures.totals.players_created),
            ("tonearm_frames_sent", "Frames of 20 ms, with or without listeners.", figures.totals.frames_sent),
            (
                "tonearm_frames_lost",
                "Frames that listeners lost because they were too slow.",
                figures.totals.frames_lost,
            ),
            ("tonearm_frames_left_out", "Frames not sent because the node was late.", figures.frames_left_out),
            ("tonearm_late_plans", "Changes that took effect later than planned.", figures.totals.late_plans),
            ("tonearm_decoder_exits", "Decoder processes that ended or were killed.", figures.decoder_exits),
            ("tonearm_decoder_work_seconds", "How long decoder processes worked.", work.worked_s),
            ("tonearm_decoder_sound_seconds", "How much sound decoder processes made.", work.made_s),
            ("tonearm_decoder_sessions_failed", "Players whose decoding failed.", work.sessions_failed),
        )
        for name, text, value in counters:
            yield CounterMetricFamily(name, text, value)
        closed = {"too_slow": figures.totals.closed_too_slow, "failed": figures.totals.closed_failed}
        yield _counter("tonearm_listeners_closed", "Listeners that the node closed.", "reason", closed)
        late = {str(limit_ms / 1000): count for limit_ms, count in figures.lateness.frames_late.items()}
        yield _counter("tonearm_frames_late", "Frames that were sent later than the limit, in seconds.", "over", late)
        yield _counter("tonearm_underruns", "Dropouts in mid-track, by cause.", "cause", _underruns(figures))
        yield _counter("tonearm_track_failures", "Tracks that failed, by code.", "code", _track_failures(figures))
        yield _counter("tonearm_fetches", "Sources opened to be played, by outcome.", "outcome", _fetches(figures))
        yield _lateness(figures.lateness)
        yield _counter("tonearm_decoder_frames", "Frames by the way they were made.", "way", work.frames)
        yield from self._services()
        yield from _voice_metrics(figures.voice or VoiceFigures())
        yield from _cluster_metrics(self._cluster)
        cpu = CounterMetricFamily(
            "tonearm_process_cpu_seconds", "CPU time of the node's processes.", labels=("kind", "slot")
        )
        memory = GaugeMetricFamily(
            "tonearm_process_resident_bytes", "Resident memory of the node's processes.", labels=("kind", "slot")
        )
        sessions = GaugeMetricFamily(
            "tonearm_decoder_sessions", "Players that a process decodes for.", labels=("slot",)
        )
        for process in figures.processes:
            slot = str(process.slot)
            cpu.add_metric((process.kind, slot), process.cpu_s)
            memory.add_metric((process.kind, slot), process.memory_bytes)
            if process.kind == "decoder":
                sessions.add_metric((slot,), process.sessions)
        yield from (cpu, memory, sessions)

    def _services(self) -> Iterable[Metric]:
        figures = self._figures
        sandbox = GaugeMetricFamily(
            "tonearm_sandbox_info", "How processes are confined.", labels=("processes", "level")
        )
        for kind, level in figures.sandboxes.items():
            if level:
                sandbox.add_metric((kind, level), 1)
        yield sandbox
        # These metrics are always there, so that queries over many nodes need no special case.
        resolver = figures.resolver or ResolverFigures(0, 0)
        state = figures.state or StateFigures(is_degraded=False, writes=0, write_s=0.0, unsaved_answers=0)
        yield GaugeMetricFamily("tonearm_resolver_working", "Pages being resolved.", resolver.working)
        yield GaugeMetricFamily("tonearm_resolver_waiting", "Pages that wait for a place.", resolver.waiting)
        yield GaugeMetricFamily(
            "tonearm_state_degraded", "1 while the state's file is damaged or cannot be written.", state.is_degraded
        )
        yield CounterMetricFamily("tonearm_state_writes", "Writes of the state's file.", state.writes)
        yield CounterMetricFamily("tonearm_state_write_seconds", "How long the writes took.", state.write_s)
        yield CounterMetricFamily(
            "tonearm_state_unsaved_answers",
            "Changes that were answered before the file had them.",
            state.unsaved_answers,
        )


def _voice_metrics(voice: VoiceFigures) -> Iterable[Metric]:
    yield _gauge("tonearm_voice_connections", "Voice connections by their state.", "state", _voices(voice))
    yield _counter("tonearm_voice_packets", "Packets to voice channels.", "kind", asdict(voice.packets))
    late = {str(limit_ms / 1000): voice.packets_late.get(limit_ms, 0) for limit_ms in LATE_MS}
    yield _counter("tonearm_voice_packets_late", "Packets sent later than the limit, in seconds.", "over", late)
    yield CounterMetricFamily("tonearm_voice_resumes", "Lost voice connections that were resumed.", voice.resumes)
    yield CounterMetricFamily("tonearm_voice_reconnects", "New voice sessions with the same values.", voice.reconnects)
    closes = {**dict.fromkeys((*map(str, CLOSES), *(reason.value for reason in NodeReason)), 0), **voice.closes}
    yield _counter("tonearm_voice_closes", "Voice connections given up, by code or reason.", "reason", closes)
    yield CounterMetricFamily(
        "tonearm_voice_process_restarts", "Voice processes that ended and were replaced.", voice.process_restarts
    )
    yield GaugeMetricFamily(
        "tonearm_voice_longest_mls_seconds",
        "The longest step of a key agreement, in seconds.",
        voice.longest_mls_ms / 1000,
    )


def _cluster_metrics(cluster: ClusterFigures | None) -> Iterable[Metric]:
    """The metrics of the cluster. They have no samples in a node without a cluster."""
    nodes = {} if cluster is None else cluster.nodes
    states = Counter(
        "lost" if not one.is_alive else "draining" if one.is_draining else "alive" for one in nodes.values()
    )
    counts = {} if cluster is None else {state: states[state] for state in ("alive", "draining", "lost")}
    yield _gauge("tonearm_cluster_nodes", "Nodes of the cluster by their state.", "state", counts)
    players = {name: one.players for name, one in nodes.items()}
    yield _gauge("tonearm_cluster_node_players", "Players of each node.", "node", players)
    loads = {name: one.load for name, one in nodes.items()}
    yield _gauge("tonearm_cluster_node_load_ratio", "The load of each node, as the node reports it.", "node", loads)
    ages = {name: one.lease_age_s for name, one in nodes.items()}
    yield _gauge("tonearm_cluster_lease_age_seconds", "The time since each node's last sign of life.", "node", ages)
    reached = GaugeMetricFamily("tonearm_cluster_engine_reached", "1 while this node reaches the engine.")
    latency = GaugeMetricFamily("tonearm_cluster_engine_latency_seconds", "The time of the last call of the engine.")
    if cluster is not None:
        reached.add_metric((), cluster.reaches_engine)
        latency.add_metric((), cluster.engine_latency_s)
    yield from (reached, latency)


def _lateness(lateness: Lateness) -> Metric:
    counts = accumulate(lateness.counts)
    limits = (*map(str, LATENESS_S), "+Inf")
    family = HistogramMetricFamily("tonearm_frame_lateness_seconds", "How late frames were sent.")
    family.add_metric((), list(zip(limits, counts, strict=True)), lateness.sum_s)
    return family


def _by_label(family: _FamilyT, values: Mapping[_Label, float]) -> _FamilyT:
    for value, count in values.items():
        family.add_metric((value,), count)
    return family


def _gauge(name: str, text: str, label: str, values: Mapping[_Label, float]) -> Metric:
    return _by_label(GaugeMetricFamily(name, text, labels=(label,)), values)


def _counter(name: str, text: str, label: str, values: Mapping[_Label, float]) -> Metric:
    return _by_label(CounterMetricFamily(name, text, labels=(label,)), values)
