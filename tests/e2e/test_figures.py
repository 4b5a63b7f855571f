"""What a node says of how well it does: to clients, to Prometheus, and to those who watch over processes."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.support.audio_files import tone, wav
from tests.support.e2e_players import PATIENT, create, delete, until_state
from tests.support.e2e_sockets import listening
from tests.support.eventually import eventually
from tests.support.running_node import RunningNode, running_node
from tonearm.core.failure import FailureCode

GRAFANA = Path(__file__).parents[2] / "docs" / "grafana"
SELECTOR = re.compile(r"\b(tonearm_[a-z_]+)(?:{([^}]*)})?")
MATCHER = re.compile(r'(\w+)(!?=~?)"([^"]*)"')
GROUPING = re.compile(r"\bby \(([^)]*)\)")
OF_PROMETHEUS = {"instance", "job", "le"}  # labels that it adds, and those of histograms, which it reads itself
LATE = "tonearm_frame_lateness_seconds"


async def stats_of(node: RunningNode) -> Any:
    return (await node.request("GET", "/v0/stats")).json()


async def families(node: RunningNode) -> list[Any]:
    answer = await node.request("GET", "/metrics")
    assert answer.status == 200
    assert (answer.header("Content-Type") or "").startswith("text/plain; version=0.0.4")
    return list(text_string_to_metric_families(answer.body.decode()))


async def values(node: RunningNode) -> dict[tuple[str, ...], float]:
    """The samples of /metrics by name and labels' values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in await families(node)
        for sample in family.samples
    }


async def test_what_plays_is_counted_with_its_processes_and_a_killed_decoder_too(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(tone(440, 30.0)))
    async with running_node(tmp_path, PATIENT) as node:
        for identifier in ("missing.wav", "song.wav"):  # what clients look up counts as nobody's source
            assert (await node.request("GET", f"/v0/loadtracks?identifier={identifier}")).status == 200
        assert not any((await stats_of(node))["fetches"].values())
        await create(node, "p", "song.wav")
        await create(node, "gone", "missing.wav")
        async with listening(node, "gone"):
            await until_state(node, "gone", lambda state: state["state"] == "failed")
        async with listening(node, "p") as ear:
            await ear.frames_heard(50)
            stats, metrics = await stats_of(node), await values(node)
            assert stats["players"]["playing"] == metrics["tonearm_players", "playing"] == 1
            assert stats["listeners"] == {"pcm": 1, "opus": 0, "mp3": 0, "voice": 0}
            assert metrics["tonearm_listeners", "pcm"] == 1
            assert metrics["tonearm_frames_sent_total",] >= stats["framesSent"] >= 50
            assert metrics[f"{LATE}_bucket", "+Inf"] == metrics[f"{LATE}_count",] >= 50
            assert metrics["tonearm_decoder_frames_total", "pcm"] >= stats["decoderWork"]["frames"]["pcm"] >= 50
            for outcome in ("opened", "file_missing"):
                assert metrics["tonearm_fetches_total", outcome] == stats["fetches"][outcome] == 1
            assert metrics["tonearm_track_failures_total", "file_missing"] == 1
            assert stats["sandbox"]["decoders"]
            processes = stats["processes"]
            assert (processes[0]["kind"], processes[0]["pid"]) == ("node", node.pid)
            assert all(process["memoryBytes"] > 1_000_000 for process in processes)
            (decoder,) = (process for process in processes if process["sessions"])
            assert decoder["kind"] == "decoder"
            os.kill(decoder["pid"], signal.SIGKILL)

            async def is_counted() -> bool:
                return bool((await stats_of(node))["decoderExits"] == 1)

            await eventually(is_counted, "the exit is counted")
            assert (await values(node))["tonearm_decoder_exits_total",] == 1
        for player in ("p", "gone"):
            await delete(node, player)
        after = await stats_of(node)
        assert after["framesSent"] >= stats["framesSent"]
        assert (after["playersCreated"], after["trackFailures"]["file_missing"]) == (2, 1)


def queries(file: str) -> list[str]:
    """What the dashboard or the alerts ask Prometheus."""
    text = (GRAFANA / file).read_text(encoding="utf-8")
    if file == "tonearm.json":
        return [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]
    return re.findall(r"^ +expr: (.*(?:\n {10,}.*)*)", text, re.MULTILINE)


async def test_what_documents_say_of_metrics_is_so_and_each_is_there_from_the_start(tmp_path: Path) -> None:
    """And each reason is counted from 0, so that its first time is an increase."""
    async with running_node(tmp_path) as node:
        await node.decoders_ready(1)
        found = await families(node)
        counts, stats = await values(node), await stats_of(node)
    there: dict[str, dict[str, set[str]]] = {}  # the samples, with the values that each of their labels has
    for sample in (sample for family in found for sample in family.samples):
        labels = there.setdefault(sample.name, {})
        for label, value in sample.labels.items():
            labels.setdefault(label, set()).add(value)
    there["tonearm_sandbox_info"]["level"] |= {"none", "off"}  # one at a time is shown, and these are not the tests'
    codes = set(FailureCode)
    for name, shown, reasons in (
        ("tonearm_track_failures_total", "trackFailures", codes),
        ("tonearm_fetches_total", "fetches", {"opened", *codes}),
    ):
        assert {labels[1]: counts[labels] for labels in counts if labels[0] == name} == dict.fromkeys(reasons, 0)
        assert stats[shown] == dict.fromkeys(reasons, 0)

    named = {file: require_known(queries(file), there) for file in ("tonearm.json", "alerts.yml")}
    assert all(len(names) >= 8 for names in named.values())
    names = {re.sub("_(bucket|sum|count|created)$", "", name) for name in there}
    shown_names = {re.sub("_bucket$", "", name) for name in named["tonearm.json"]}
    assert names <= shown_names | {LATE}, names - shown_names

    text = (GRAFANA.parent / "operating.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `tonearm_")]
    explained = [name for row in rows for name in re.findall(r"`(tonearm_[a-z_]+)", row.split(" | ")[0])]
    assert sorted(explained) == sorted(f"{one.name}_total" if one.type == "counter" else one.name for one in found)
    assert all(len(row.split(" | ")) == 3 for row in rows)


def require_known(asked: list[str], there: dict[str, dict[str, set[str]]]) -> set[str]:
    """The metrics that these queries name, which must be there with their labels and values."""
    named = set()
    for query in asked:
        labels: set[str] = set()
        for name, matchers in SELECTOR.findall(query):
            assert name in there, f"{name} has no sample: {query}"
            named.add(name)
            labels |= there[name].keys()
            for label, operator, wanted in MATCHER.findall(matchers):
                if label not in OF_PROMETHEUS:
                    of_label = set(wanted.split("|") if "~" in operator else [wanted])
                    assert of_label <= there[name].get(label, set()), f"{name} has no {label} of {of_label}: {query}"
        grouped = {label for labels in GROUPING.findall(query) for label in labels.split(", ")}
        assert grouped - OF_PROMETHEUS <= labels, query
    return named
