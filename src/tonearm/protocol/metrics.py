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
from typing import Any, Final, TypeAlias, TypeVar

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

_Value: TypeAlias = float | Mapping[Any, float] | None  # by values of a label, or by pairs of values
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
        figures, totals, work = self._figures, self._figures.totals, self._figures.decoder_work
        yield _gauge("info", "The node's version.", {figures.version: 1}, "version")
        yield _gauge("uptime_seconds", "The time since the node was started.", figures.uptime_s)
        yield _gauge("players", "Players by their state.", figures.players, "state")
        asleep = "Players that go on without a decoder, because nobody listens."
        yield _gauge("players_asleep", asleep, figures.players_asleep)
        yield _gauge("players_waiting", "Players that wait for room in a decoder process.", figures.players_waiting)
        yield _gauge("overload_seconds", "How long the node has been overloaded.", figures.overload_s)
        load = "The share of the last 10 s in which the node was late; 1 when it can take no more players."
        yield _gauge("load_ratio", load, figures.load)
        yield _gauge("listeners", "Listeners by the format of their audio.", _listeners(figures), "format")
        yield _counter("suspended_seconds", "How long the machine slept.", figures.suspended_s)
        yield _counter("players_created", "Players that were created.", totals.players_created)
        yield _counter("frames_sent", "Frames of 20 ms, with or without listeners.", totals.frames_sent)
        yield _counter("frames_lost", "Frames that listeners lost because they were too slow.", totals.frames_lost)
        yield _counter("frames_left_out", "Frames not sent because the node was late.", figures.frames_left_out)
        yield _counter("late_plans", "Changes that took effect later than planned.", totals.late_plans)
        yield _counter("decoder_exits", "Decoder processes that ended or were killed.", figures.decoder_exits)
        yield _counter("decoder_work_seconds", "How long decoder processes worked.", work.worked_s)
        yield _counter("decoder_sound_seconds", "How much sound decoder processes made.", work.made_s)
        yield _counter("decoder_sessions_failed", "Players whose decoding failed.", work.sessions_failed)
        closed = {"too_slow": totals.closed_too_slow, "failed": totals.closed_failed}
        yield _counter("listeners_closed", "Listeners that the node closed.", closed, "reason")
        late = {str(limit_ms / 1000): count for limit_ms, count in figures.lateness.frames_late.items()}
        yield _counter("frames_late", "Frames that were sent later than the limit, in seconds.", late, "over")
        yield _counter("underruns", "Dropouts in mid-track, by cause.", _underruns(figures), "cause")
        yield _counter("track_failures", "Tracks that failed, by code.", _track_failures(figures), "code")
        yield _counter("fetches", "Sources opened to be played, by outcome.", _fetches(figures), "outcome")
        yield _lateness(figures.lateness)
        yield _counter("decoder_frames", "Frames by the way they were made.", work.frames, "way")
        yield from self._services()
        yield from _voice_metrics(figures.voice or VoiceFigures())
        yield from _cluster_metrics(self._cluster)
        processes = {(process.kind, str(process.slot)): process for process in figures.processes}
        cpu_s = {labels: process.cpu_s for labels, process in processes.items()}
        yield _counter("process_cpu_seconds", "CPU time of the node's processes.", cpu_s, "kind", "slot")
        resident = {labels: process.memory_bytes for labels, process in processes.items()}
        yield _gauge("process_resident_bytes", "Resident memory of the node's processes.", resident, "kind", "slot")
        sessions = {slot: process.sessions for (kind, slot), process in processes.items() if kind == "decoder"}
        yield _gauge("decoder_sessions", "Players that a process decodes for.", sessions, "slot")

    def _services(self) -> Iterable[Metric]:
        figures = self._figures
        sandboxes = {(kind, level): 1 for kind, level in figures.sandboxes.items() if level}
        yield _gauge("sandbox_info", "How processes are confined.", sandboxes, "processes", "level")
        # These metrics are always there, so that queries over many nodes need no special case.
        resolver = figures.resolver or ResolverFigures(0, 0)
        state = figures.state or StateFigures(is_degraded=False, writes=0, write_s=0.0, unsaved_answers=0)
        yield _gauge("resolver_working", "Pages being resolved.", resolver.working)
        yield _gauge("resolver_waiting", "Pages that wait for a place.", resolver.waiting)
        degraded = "1 while the state's file is damaged or cannot be written."
        yield _gauge("state_degraded", degraded, state.is_degraded)
        yield _counter("state_writes", "Writes of the state's file.", state.writes)
        yield _counter("state_write_seconds", "How long the writes took.", state.write_s)
        unsaved = "Changes that were answered before the file had them."
        yield _counter("state_unsaved_answers", unsaved, state.unsaved_answers)


def _voice_metrics(voice: VoiceFigures) -> Iterable[Metric]:
    yield _gauge("voice_connections", "Voice connections by their state.", _voices(voice), "state")
    yield _counter("voice_packets", "Packets to voice channels.", asdict(voice.packets), "kind")
    late = {str(limit_ms / 1000): voice.packets_late.get(limit_ms, 0) for limit_ms in LATE_MS}
    yield _counter("voice_packets_late", "Packets sent later than the limit, in seconds.", late, "over")
    yield _counter("voice_resumes", "Lost voice connections that were resumed.", voice.resumes)
    yield _counter("voice_reconnects", "New voice sessions with the same values.", voice.reconnects)
    closes = {**dict.fromkeys((*map(str, CLOSES), *(reason.value for reason in NodeReason)), 0), **voice.closes}
    yield _counter("voice_closes", "Voice connections given up, by code or reason.", closes, "reason")
    restarts = "Voice processes that ended and were replaced."
    yield _counter("voice_process_restarts", restarts, voice.process_restarts)
    longest = "The longest step of a key agreement, in seconds."
    yield _gauge("voice_longest_mls_seconds", longest, voice.longest_mls_ms / 1000)


def _cluster_metrics(cluster: ClusterFigures | None) -> Iterable[Metric]:
    """The metrics of the cluster. They have no samples in a node without a cluster."""
    nodes = {} if cluster is None else cluster.nodes
    states = Counter(
        "lost" if not one.is_alive else "draining" if one.is_draining else "alive" for one in nodes.values()
    )
    counts = {} if cluster is None else {state: states[state] for state in ("alive", "draining", "lost")}
    yield _gauge("cluster_nodes", "Nodes of the cluster by their state.", counts, "state")
    players = {name: one.players for name, one in nodes.items()}
    yield _gauge("cluster_node_players", "Players of each node.", players, "node")
    loads = {name: one.load for name, one in nodes.items()}
    yield _gauge("cluster_node_load_ratio", "The load of each node, as the node reports it.", loads, "node")
    ages = {name: one.lease_age_s for name, one in nodes.items()}
    yield _gauge("cluster_lease_age_seconds", "The time since each node's last sign of life.", ages, "node")
    reached, latency_s = (None, None) if cluster is None else (cluster.reaches_engine, cluster.engine_latency_s)
    yield _gauge("cluster_engine_reached", "1 while this node reaches the engine.", reached)
    yield _gauge("cluster_engine_latency_seconds", "The time of the last call of the engine.", latency_s)


def _lateness(lateness: Lateness) -> Metric:
    counts = accumulate(lateness.counts)
    limits = (*map(str, LATENESS_S), "+Inf")
    family = HistogramMetricFamily("tonearm_frame_lateness_seconds", "How late frames were sent.")
    family.add_metric((), list(zip(limits, counts, strict=True)), lateness.sum_s)
    return family


def _gauge(name: str, text: str, value: _Value, *labels: str) -> Metric:
    return _filled(GaugeMetricFamily(f"tonearm_{name}", text, labels=labels), value)


def _counter(name: str, text: str, value: _Value, *labels: str) -> Metric:
    return _filled(CounterMetricFamily(f"tonearm_{name}", text, labels=labels), value)


def _filled(family: _FamilyT, value: _Value) -> _FamilyT:
    """With one sample, none, or one for each value of the label, or pair of values of two labels."""
    if isinstance(value, Mapping):
        for labels, one in value.items():
            family.add_metric((labels,) if isinstance(labels, str) else labels, one)
    elif value is not None:
        family.add_metric((), value)
    return family
