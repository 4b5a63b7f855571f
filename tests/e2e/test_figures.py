"""What a node says of how well it does: to clients, to Prometheus, and to those who watch over processes."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.audio_files import music, wav
from tests.support.e2e_players import PATIENT, create, delete, until_state
from tests.support.e2e_sockets import listening
from tests.support.eventually import eventually
from tests.support.running_node import RunningNode, running_node, shared_node
from tonearm.core.failure import FailureCode


async def values(node: RunningNode) -> dict[tuple[str, ...], float]:
    """The samples of /metrics by name and labels' values."""
    answer = await node.request("GET", "/metrics")
    assert answer.status == 200
    assert (answer.header("Content-Type") or "").startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


async def test_what_plays_is_counted_and_stays_counted_when_the_player_is_deleted(node: RunningNode) -> None:
    (node.folder / "song.wav").write_bytes(wav(music(3.0)))
    before, measured = (await node.request("GET", "/v0/stats")).json(), await values(node)
    await create(node, "p", "song.wav")
    await create(node, "gone", "missing.wav")
    async with listening(node, "p") as ear:
        await ear.frames_heard(50)
        stats = (await node.request("GET", "/v0/stats")).json()
        metrics = await values(node)
    async with listening(node, "gone"):
        await until_state(node, "gone", lambda state: state["state"] == "failed")
    assert stats["players"]["playing"] == 1
    assert stats["listeners"] == {"pcm": 1, "opus": 0, "mp3": 0, "voice": 0}
    assert stats["framesSent"] - before["framesSent"] >= 50
    assert metrics["tonearm_listeners", "pcm"] == 1
    assert metrics["tonearm_players", "playing"] == 1
    assert metrics["tonearm_frames_sent_total",] >= stats["framesSent"]
    late = "tonearm_frame_lateness_seconds"
    assert metrics[f"{late}_count",] - measured[f"{late}_count",] >= 50
    assert metrics[f"{late}_bucket", "+Inf"] == metrics[f"{late}_count",]
    assert metrics["tonearm_decoder_frames_total", "pcm"] - measured["tonearm_decoder_frames_total", "pcm"] >= 50
    assert metrics["tonearm_fetches_total", "opened"] > measured["tonearm_fetches_total", "opened"]
    assert stats["decoderWork"]["frames"]["pcm"] >= 50
    assert stats["sandbox"]["decoders"]
    for player in ("p", "gone"):
        await delete(node, player)
    after = (await node.request("GET", "/v0/stats")).json()
    assert after["framesSent"] >= stats["framesSent"]
    assert after["playersCreated"] - before["playersCreated"] == 2
    assert after["trackFailures"]["file_missing"] - before["trackFailures"]["file_missing"] == 1
    assert (await values(node))["tonearm_track_failures_total", "file_missing"] >= 1


async def test_only_what_players_open_counts_as_their_sources(node: RunningNode) -> None:
    (node.folder / "song.wav").write_bytes(wav(music(1.0)))
    before = (await node.request("GET", "/v0/stats")).json()["fetches"]
    for identifier in ("missing.wav", "song.wav"):
        assert (await node.request("GET", f"/v0/loadtracks?identifier={identifier}")).status == 200
    assert (await node.request("GET", "/v0/stats")).json()["fetches"] == before
    await create(node, "gone", "missing.wav")
    async with listening(node, "gone"):
        await until_state(node, "gone", lambda state: state["state"] == "failed")
    after = (await node.request("GET", "/v0/stats")).json()["fetches"]
    assert after == {**before, "file_missing": before["file_missing"] + 1}
    counted = (await values(node))["tonearm_fetches_total", "file_missing"]
    assert counted == after["file_missing"]


async def test_processes_show_with_their_work_and_a_killed_decoder_is_counted(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(music(30.0)))
    async with running_node(tmp_path, PATIENT) as node:
        await create(node, "p", "song.wav")
        async with listening(node, "p") as ear:
            await ear.frames_heard(5)
            processes = (await node.request("GET", "/v0/stats")).json()["processes"]
            assert (processes[0]["kind"], processes[0]["pid"]) == ("node", node.pid)
            assert all(process["memoryBytes"] > 1_000_000 for process in processes)
            (decoder,) = (process for process in processes if process["sessions"])
            assert decoder["kind"] == "decoder"
            await node.decoders_ready(2)
            before = await decoders(node)
            assert len(before) == 3 * 2
            os.kill(decoder["pid"], signal.SIGKILL)

            async def is_counted() -> bool:
                return bool((await node.request("GET", "/v0/stats")).json()["decoderExits"] == 1)

            await eventually(is_counted, "the exit is counted")
            assert (await values(node))["tonearm_decoder_exits_total",] == 1

            async def is_replaced() -> bool:
                return await decoders(node) == before

            await eventually(is_replaced, "another process has taken its place in the figures")


async def decoders(node: RunningNode) -> set[tuple[str, ...]]:
    """The samples that each decoder process has of its own, by name and labels' values."""
    return {
        name
        for name in await values(node)
        if name[:2] in {("tonearm_process_cpu_seconds_total", "decoder"), ("tonearm_process_resident_bytes", "decoder")}
        or name[0] == "tonearm_decoder_sessions"
    }


GRAFANA = Path(__file__).parents[2] / "docs" / "grafana"


SELECTOR = re.compile(r"\b(tonearm_[a-z_]+)(?:{([^}]*)})?")
MATCHER = re.compile(r'(\w+)(!?=~?)"([^"]*)"')
GROUPING = re.compile(r"\bby \(([^)]*)\)")
OF_PROMETHEUS = {"instance", "job", "le"}  # labels that it adds, and those of histograms, which it reads itself


def queries(file: str) -> list[str]:
    """What the dashboard or the alerts ask Prometheus."""
    text = (GRAFANA / file).read_text(encoding="utf-8")
    if file == "tonearm.json":
        return [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]
    return re.findall(r"^ +expr: (.*(?:\n {10,}.*)*)", text, re.MULTILINE)


async def values_by_name(node: RunningNode) -> dict[str, dict[str, set[str]]]:
    """The metrics of which there is a sample, with the values that each of their labels has."""
    answer = await node.request("GET", "/metrics")
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


@pytest.fixture(scope="module")
def new_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """One in which nothing has been counted yet."""
    with shared_node(tmp_path_factory.mktemp("new"), "") as node:
        yield node


@pytest.mark.parametrize("file", ["tonearm.json", "alerts.yml"])
async def test_what_dashboard_and_alerts_name_is_there_from_the_start(new_node: RunningNode, file: str) -> None:
    await new_node.decoders_ready(1)
    there = await values_by_name(new_node)
    there["tonearm_sandbox_info"]["level"] |= {"none", "off"}  # one at a time is shown, and these are not the tests'
    named = set()
    for query in queries(file):
        labels: set[str] = set()
        for name, matchers in SELECTOR.findall(query):
            assert name in there, f"{name} has no sample: {query}"
            named.add(name)
            labels |= there[name].keys()
            for label, operator, wanted in MATCHER.findall(matchers):
                if label not in OF_PROMETHEUS:
                    values = set(wanted.split("|") if "~" in operator else [wanted])
                    assert values <= there[name].get(label, set()), f"{name} has no {label} of {values}: {query}"
        grouped = {label for labels in GROUPING.findall(query) for label in labels.split(", ")}
        assert grouped - OF_PROMETHEUS <= labels, query
    assert len(named) >= 8
    if file == "tonearm.json":
        names = {re.sub("_(bucket|sum|count|created)$", "", name) for name in there}
        shown = {re.sub("_bucket$", "", name) for name in named}
        assert names <= shown | {"tonearm_frame_lateness_seconds"}, names - shown


def test_only_seconds_are_shown_as_seconds() -> None:
    for panel in json.loads((GRAFANA / "tonearm.json").read_text(encoding="utf-8"))["panels"]:
        config = panel["fieldConfig"]
        units = {
            override["matcher"]["options"]: each["value"]
            for override in config["overrides"]
            for each in override["properties"]
            if override["matcher"]["id"] == "byFrameRefID" and each["id"] == "unit"
        }
        assert units.keys() <= {target["refId"] for target in panel["targets"]}, panel["title"]
        for target in panel["targets"]:
            if units.get(target["refId"], config["defaults"]["unit"]) == "s":
                assert "_seconds" in target["expr"], (panel["title"], target["expr"])


async def test_each_reason_is_counted_from_0_so_that_its_first_time_is_an_increase(new_node: RunningNode) -> None:
    counts, stats = await values(new_node), (await new_node.request("GET", "/v0/stats")).json()
    codes = set(FailureCode)
    assert {(labels[1], counts[labels]) for labels in counts if labels[0] == "tonearm_track_failures_total"} == {
        (code, 0) for code in codes
    }
    assert {(labels[1], counts[labels]) for labels in counts if labels[0] == "tonearm_fetches_total"} == {
        (outcome, 0) for outcome in {"opened", *codes}
    }
    assert stats["trackFailures"] == dict.fromkeys(codes, 0)
    assert stats["fetches"] == dict.fromkeys(("opened", *codes), 0)


async def test_operators_are_told_what_each_metric_means_and_no_other(node: RunningNode) -> None:
    answer = await node.request("GET", "/metrics")
    families = text_string_to_metric_families(answer.body.decode())
    there = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    text = (GRAFANA.parent / "operating.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `tonearm_")]
    explained = [name for row in rows for name in re.findall(r"`(tonearm_[a-z_]+)", row.split(" | ")[0])]
    assert sorted(explained) == sorted(there)
    assert all(len(row.split(" | ")) == 3 for row in rows)
