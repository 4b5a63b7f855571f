"""Many nodes as one: real nodes on a real engine, asked from outside."""

import asyncio
import base64
import contextlib
import json
import secrets
import socket
import zlib
from pathlib import Path

import aiohttp
import nats
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.audio_files import tone, wav
from tests.support.command import run_tonearm
from tests.support.eventually import eventually
from tests.support.processes import standing_still
from tests.support.running_cluster import LEASE_S, cuttable, nodes_of, running_cluster
from tests.support.running_node import RunningNode, running_node

TRUE_RECORD = b'{"address": "%s", "players": 1, "load": 0}'
SONG = wav(tone(440, 60.0))


def songs(folder: Path) -> None:
    (folder / "song.wav").write_bytes(SONG)


async def test_any_node_answers_for_any_player(tmp_path: Path) -> None:
    page = "https://page.example"
    config = f'[server]\nallowed_origins = ["{page}"]'
    async with running_cluster(tmp_path, "a", "b", "c", prepare=songs, config=config) as cluster:
        a, b, c = cluster.nodes.values()
        for name in ("a", "b", "c"):
            answer = await a.request("POST", "/v0/players", {"id": f"p-{name}", "uri": "song.wav", "node": name})
            assert answer.status == 201, answer.body
            assert answer.header("Tonearm-Node") == name
        for node in (a, b, c):
            listed = (await node.request("GET", "/v0/players")).json()
            assert {player["id"]: player["node"] for player in listed} == {"p-a": "a", "p-b": "b", "p-c": "c"}
            for name in ("a", "b", "c"):
                shown = await node.request("GET", f"/v0/players/p-{name}")
                assert (shown.status, shown.json()["node"], shown.header("Tonearm-Node")) == (200, name, name)
                of_page = [("Origin", page), ("Sec-Fetch-Site", "cross-site")]
                assert (await node.request("GET", f"/v0/players/p-{name}", headers=of_page)).status == 200
                assert (await node.request("POST", f"/v0/players/p-{name}/pause")).status == 204
                assert (await node.request("PATCH", f"/v0/players/p-{name}/filters", {"volume": 0.5})).status == 204
                assert (await node.request("POST", f"/v0/players/p-{name}/queue", {"uri": "song.wav"})).status == 201
            again = await node.request("POST", "/v0/players", {"id": "p-b", "uri": "song.wav"})
            assert (again.status, again.json()["code"]) == (409, "player_exists")
        records = (await b.request("GET", "/v0/state")).json()
        assert {record["id"] for record in records["players"]} == {"p-a", "p-b", "p-c"}
        with_host = await c.request("GET", "http://elsewhere.example/v0/players/p-a/queue?limit=1")
        assert (with_host.status, len(with_host.json())) == (200, 1), with_host.body
        missing = await c.request("GET", "/v0/players/nobody")
        assert (missing.status, missing.json()["code"]) == (404, "player_not_found")
        assert (await c.request("DELETE", "/v0/players/p-a")).status == 204
        assert (await b.request("GET", "/v0/players/p-a")).status == 404

        async def are_counted() -> bool:
            shown = await nodes_of(b)
            return [shown[name]["players"] for name in ("a", "b", "c")] == [0, 1, 1]

        await eventually(are_counted, "the nodes say how many players they have")
        created = await c.request("POST", "/v0/players", {"id": "x", "uri": "song.wav", "node": "nowhere"})
        assert (created.status, created.json()["code"]) == (400, "bad_request")


async def test_each_node_has_figures_of_all(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, b = cluster.nodes.values()
        for name in ("p", "q"):
            await a.request("POST", "/v0/players", {"id": name, "uri": "song.wav", "node": "a"})

        async def samples() -> dict[tuple[str, ...], float]:
            text = (await b.request("GET", "/metrics")).body.decode()
            return {
                (sample.name.removeprefix("tonearm_"), *sample.labels.values()): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }

        async def are_counted() -> bool:
            return (await samples())["cluster_node_players", "a"] == 2

        await eventually(are_counted, "the other node says how many players it has")
        found = await samples()
        assert found["cluster_node_players", "b"] == 0
        assert 0 <= found["load_ratio",] <= 1
        assert found["cluster_engine_reached",] == 1
        assert found["cluster_engine_latency_seconds",] > 0
        assert {("cluster_lease_age_seconds", name) for name in ("a", "b")} <= found.keys()
        assert {("cluster_node_load_ratio", name) for name in ("a", "b")} <= found.keys()
        await b.request("POST", "/v0/nodes/a/drain")

        async def is_drained() -> bool:
            found = await samples()
            return (found["cluster_nodes", "draining"], found["cluster_node_players", "b"]) == (1, 2)

        await eventually(is_drained, "the figures show that a drains")
        await cluster.kill("a")

        async def is_lost() -> bool:
            return (await samples())["cluster_nodes", "lost"] == 1

        await eventually(is_lost, "the figures show that a is lost")


async def test_a_hundred_creations_at_once_make_one_player(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", "c", prepare=songs) as cluster:
        nodes = list(cluster.nodes.values())
        body = {"id": "one", "uri": "song.wav"}
        answers = await asyncio.gather(*(nodes[n % 3].request("POST", "/v0/players", body) for n in range(60)))
        assert sorted(answer.status for answer in answers) == [201] + [409] * 59


async def test_sockets_are_passed_on(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, b = cluster.nodes.values()
        await a.request("POST", "/v0/players", {"id": "p", "uri": "song.wav", "node": "a"})
        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(f"{b.url}/v0/players/p/ws") as frames:
                heard = [await frames.receive() for _ in range(50)]
                assert all(len(frame.data) == 3840 for frame in heard)
            async with session.ws_connect(f"{b.url}/v0/players/p/events?snapshot=true") as events:
                assert (await events.receive_json())["op"] == "PlayerState"
                await a.request("POST", "/v0/players/p/pause")
                ops = []
                while "PlayerPause" not in ops:
                    ops.append((await events.receive_json(timeout=10))["op"])
            async with session.ws_connect(f"{b.url}/v0/events") as everything:
                await asyncio.sleep(1.5)
                await a.request("POST", "/v0/players", {"id": "q", "uri": "song.wav", "node": "a"})
                ids = set()
                while "q" not in ids:
                    ids.add((await everything.receive_json(timeout=10)).get("id"))
                await cluster.start("c")
                while (event := await everything.receive_json(timeout=10))["op"] != "EventsLost":
                    pass
                assert event.keys() == {"op", "time", "lost"}
            for wrong in ("since=1", "snapshot=maybe"):
                with pytest.raises(aiohttp.WSServerHandshakeError, match="400"):
                    await session.ws_connect(f"{b.url}/v0/events?{wrong}")
            async with session.get(f"{b.url}/v0/players/p/stream.wav") as stream:
                assert stream.status == 200
                assert len(await stream.content.readexactly(10_000)) == 10_000
            refused = await session.get(f"{b.url}/v0/players/p/stream.mp3?bitrate=7")
            assert refused.status == 400


async def test_the_players_of_a_node_that_is_lost_go_on_at_others(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", "c", prepare=songs) as cluster:
        b = cluster.nodes["b"]
        for number in range(6):
            answer = await b.request("POST", "/v0/players", {"id": f"p{number}", "uri": "song.wav", "node": "a"})
            assert answer.status == 201
            await b.request("POST", f"/v0/players/p{number}/queue", {"uri": "song.wav", "metadata": {"n": number}})
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{b.url}/v0/players/p0/ws") as frames,
        ):
            for _ in range(50):
                await frames.receive()
            before = (await b.request("GET", "/v0/players/p0")).json()
            await cluster.kill("a")
            for _ in range(100):  # the same socket goes on
                assert (await frames.receive(timeout=20)).type is aiohttp.WSMsgType.BINARY
        for number in range(6):
            shown = (await b.request("GET", f"/v0/players/p{number}")).json()
            assert shown["node"] in ("b", "c")
            assert shown["queueLength"] == 1
        now = (await b.request("GET", "/v0/players/p0")).json()
        assert now["position"] > before["position"]
        owners = {(await b.request("GET", f"/v0/players/p{number}")).json()["node"] for number in range(6)}
        assert owners == {"b", "c"}


async def test_a_change_waits_for_a_node_that_is_just_starting_again(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, _ = cluster.nodes.values()
        await a.request("POST", "/v0/players", {"id": "p", "uri": "song.wav", "node": "b"})
        await cluster.kill("b")
        connection = await nats.connect(cluster.engine.url)
        nodes = await connection.jetstream().key_value("ta_test_nodes")
        await nodes.put(
            base64.urlsafe_b64encode(b"b").decode().rstrip("="), TRUE_RECORD % b""
        )  # it does not listen yet
        await connection.close()

        async def is_known() -> bool:
            return not (await nodes_of(a))["b"]["address"]

        await eventually(is_known, "it has no address")
        drained = await a.request("POST", "/v0/nodes/b/drain")
        assert (drained.status, drained.json()["code"]) == (503, "node_unreachable")
        changed = await a.request("PATCH", "/v0/players/p/filters", {"volume": 0.5})
        assert changed.status == 204, changed.body
        assert changed.header("Tonearm-Node") == "a"


async def test_a_player_whose_node_has_left_is_known_until_it_is_taken(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, b = cluster.nodes.values()
        connection = await nats.connect(cluster.engine.url)
        players = await connection.jetstream().key_value("ta_test_players")
        key = base64.urlsafe_b64encode(b"p").decode().rstrip("=")
        await asyncio.sleep(LEASE_S)  # so that they know who lives
        for node in (a, b):
            await a.request("POST", "/v0/players", {"id": "p", "uri": "song.wav", "node": "a"})
            value = (await players.get(key)).value or b""
            assert (await a.request("DELETE", "/v0/players/p")).status == 204
            await players.put(key, value.replace(b'"owner": "a"', b'"owner": "z"'))
            changed = await node.request("PATCH", "/v0/players/p/filters", {"volume": 0.5})
            assert changed.status == 204, changed.body
            assert (await node.request("DELETE", "/v0/players/p")).status == 204
        await connection.close()


async def test_a_move_is_hardly_heard_and_loses_nothing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, b = cluster.nodes.values()
        await a.request("POST", "/v0/players", {"id": "p", "uri": "song.wav", "node": "a", "metadata": {"k": 1}})
        await a.request("POST", "/v0/players/p/queue", {"uri": "song.wav"})
        await a.request("PATCH", "/v0/players/p/filters", {"volume": 0.5})
        async with aiohttp.ClientSession() as session:
            events = await session.ws_connect(f"{b.url}/v0/players/p/events")
            frames = await session.ws_connect(f"{b.url}/v0/players/p/ws")
            for _ in range(50):
                await frames.receive()
            moved = await b.request("POST", "/v0/players/p/move", {"node": "b"})
            assert moved.status == 204, moved.body
            for _ in range(100):
                assert (await frames.receive(timeout=20)).type is aiohttp.WSMsgType.BINARY
            shown = (await a.request("GET", "/v0/players/p")).json()
            assert (shown["node"], shown["queueLength"], shown["volume"], shown["metadata"]) == ("b", 1, 0.5, {"k": 1})
            ops = []
            while "PlayerMoved" not in ops:
                event = await events.receive_json(timeout=10)
                ops.append(event["op"])
            assert "PlayerDelete" not in ops
            assert (event["from"], event["to"]) == ("a", "b")
            await frames.close()
            await events.close()


async def test_a_player_for_which_another_node_has_no_room_stays(tmp_path: Path) -> None:
    config = "[player]\nmax_players = 1\n"
    async with running_cluster(tmp_path, "a", "b", prepare=songs, config=config) as cluster:
        a, b = cluster.nodes.values()
        for name, node in (("p", "a"), ("q", "b")):
            made = await a.request("POST", "/v0/players", {"id": name, "uri": "song.wav", "node": node})
            assert made.status == 201, made.body
        moved = await b.request("POST", "/v0/players/p/move", {"node": "b"})
        assert (moved.status, moved.json()["code"]) == (503, "node_unreachable"), moved.body
        assert "429" in moved.json()["message"]
        shown = (await b.request("GET", "/v0/players/p")).json()
        assert (shown["node"], shown["track"]["info"]["title"]) == ("a", "song")
        assert (await b.request("POST", "/v0/players/p/pause")).status == 204
        await cluster.kill("a")

        async def is_told() -> bool:
            return "player p of the node a cannot go on here" in "".join(b.log)

        await eventually(is_told, "the node that is left says that it has no room")
        assert (await b.request("DELETE", "/v0/players/q")).status == 204

        async def is_taken() -> bool:
            return await cluster.owner("p") == "b"

        await eventually(is_taken, "the player goes on as soon as there is room")


async def test_a_player_that_is_too_large_for_the_engine_is_told_as_unsaved(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", prepare=songs, engine_config="max_payload: 8192\n") as cluster:
        (a,) = cluster.nodes.values()
        await a.request("POST", "/v0/players", {"id": "p", "uri": "song.wav"})
        large = await a.request("PATCH", "/v0/players/p/metadata", {"value": {"k": secrets.token_hex(7_900)}})
        assert (large.status, large.header("Tonearm-Unsaved")) == (204, "true")
        ready = (await a.request("GET", "/readyz")).json()
        assert "Player p is not kept" in str(ready)
        assert "max_payload" in str(ready)
        small = await a.request("PATCH", "/v0/players/p/metadata", {"value": {"k": 1}})
        assert (small.status, small.header("Tonearm-Unsaved")) == (204, None)
        assert "not kept" not in str((await a.request("GET", "/readyz")).json())


async def test_a_node_that_is_drained_keeps_no_player(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", "c", prepare=songs) as cluster:
        a, b, c = cluster.nodes.values()
        for number in range(10):
            await b.request("POST", "/v0/players", {"id": f"p{number}", "uri": "song.wav", "node": "a"})
        assert (await c.request("POST", "/v0/nodes/a/drain")).status == 204

        async def is_empty() -> bool:
            listed = (await b.request("GET", "/v0/players")).json()
            assert len(listed) == 10
            return {player["node"] for player in listed} == {"b", "c"}

        await eventually(is_empty, "all players are elsewhere")
        for number in range(6):
            answer = await a.request("POST", "/v0/players", {"id": f"q{number}", "uri": "song.wav"})
            assert answer.header("Tonearm-Node") in ("b", "c")


async def test_nodes_are_listed_and_drained_by_commands(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, b = cluster.nodes.values()
        for number in range(3):
            await b.request("POST", "/v0/players", {"id": f"p{number}", "uri": "song.wav", "node": "a"})

        async def said(*words: str) -> str:
            result = await asyncio.to_thread(run_tonearm, *words, folder=tmp_path, variables={"TONEARM_URL": b.url})
            assert result.returncode == 0, result.stderr
            return result.stdout

        lines = (await said("nodes")).splitlines()
        assert [line.split()[0] for line in lines] == ["Node", *sorted(("a", "b"), key=lambda name: name != "b")]
        assert "alive" in lines[1]
        assert (await said("drain", "a")).splitlines()[-1] == "a: has no players left and can be stopped"
        players = [json.loads(line) for line in (await said("players", "--json")).splitlines()]
        assert {player["id"] for player in players} == {"p0", "p1", "p2"}

        async def is_shown() -> bool:  # with its next record
            return "draining" in await said("nodes")

        await eventually(is_shown, "the other node knows that it drains")
        words = ("drain", "b")
        refused = await asyncio.to_thread(run_tonearm, *words, folder=tmp_path, variables={"TONEARM_URL": b.url})
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "There is no other living node that takes players." in refused.stderr
        assert await said("drain", "a", "--undo") == "a: takes players again\n"
        assert (await a.request("GET", "/v0/players")).json()


async def test_players_play_on_without_the_engine(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, b = cluster.nodes.values()
        for name in ("p", "q", "unchanged"):
            await a.request("POST", "/v0/players", {"id": name, "uri": "song.wav", "node": "a"})
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{b.url}/v0/players/p/ws") as frames:
            await frames.receive()
            cluster.engine.kill()
            cluster.engine.lose_disk()
            for _ in range(500):  # ten seconds, three leases
                assert (await frames.receive(timeout=5)).type is aiohttp.WSMsgType.BINARY
            changed = await b.request("PATCH", "/v0/players/p/filters", {"volume": 0.5})
            assert (changed.status, changed.header("Tonearm-Unsaved")) == (204, "true")
            created = await a.request("POST", "/v0/players", {"id": "new", "uri": "song.wav"})
            assert (created.status, created.json()["code"]) == (503, "engine_lost")
            deleted = await b.request("DELETE", "/v0/players/q")
            assert (deleted.status, deleted.header("Tonearm-Unsaved")) == (204, "true")
            await asyncio.to_thread(cluster.engine.start)

            async def is_written() -> bool:
                answer = await b.request("PATCH", "/v0/players/p/filters", {"volume": 0.6})
                return answer.status == 204 and answer.header("Tonearm-Unsaved") is None

            await eventually(is_written, "it is written again")
            connection = await nats.connect(cluster.engine.url)
            players = await connection.jetstream().key_value("ta_test_players")
            key = base64.urlsafe_b64encode(b"unchanged").decode().rstrip("=")

            async def is_there() -> bool:
                with contextlib.suppress(nats.js.errors.KeyNotFoundError):
                    return bool((await players.get(key)).value)
                return False

            await eventually(is_there, "so is a player that nobody changed")
            await connection.close()
            for _ in range(200):
                assert (await frames.receive(timeout=5)).type is aiohttp.WSMsgType.BINARY
        await cluster.kill("a")

        async def is_taken() -> bool:
            answer = await b.request("GET", "/v0/players/p")
            return bool(answer.status == 200 and answer.json()["node"] == "b")

        await eventually(is_taken, "the other node has it")
        assert (await b.request("GET", "/v0/players/p")).json()["volume"] == 0.6


async def test_a_bucket_that_was_deleted_by_hand_is_made_anew(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, _ = cluster.nodes.values()
        await a.request("POST", "/v0/players", {"id": "p", "uri": "song.wav", "node": "a"})
        connection = await nats.connect(cluster.engine.url)
        stream = connection.jetstream()
        await stream.delete_key_value("ta_test_players")

        async def is_written() -> bool:
            with contextlib.suppress(nats.errors.Error):
                players = await stream.key_value("ta_test_players")
                return bool((await players.get(base64.urlsafe_b64encode(b"p").decode().rstrip("="))).value)
            return False

        await eventually(is_written, "the player that nobody changed is written again")
        await connection.close()
        await cluster.kill("a")

        async def is_taken() -> bool:
            return await cluster.owner("p") == "b"

        await eventually(is_taken, "the other node has learnt of it")


async def test_a_node_that_stood_still_plays_nothing_that_another_one_has(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, b = cluster.nodes.values()
        await a.request("POST", "/v0/players", {"id": "p", "uri": "song.wav", "node": "a"})
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{a.url}/v0/players/p/ws") as frames:
            for _ in range(50):
                await frames.receive()

            async def is_taken() -> bool:
                answer = await b.request("GET", "/v0/players/p")
                return bool(answer.status == 200 and answer.json()["node"] == "b")

            with standing_still(a.pid):
                await eventually(is_taken, "the other node has it")
                with contextlib.suppress(TimeoutError):
                    while True:  # what came before
                        await frames.receive(timeout=0.5)
            heard = 0
            while (message := await frames.receive(timeout=20)).type is aiohttp.WSMsgType.BINARY:
                heard += 1
            assert heard <= 15, "what the kernel still had"  # its buffers, and nothing of a second
            assert (message.type, frames.close_code) == (aiohttp.WSMsgType.CLOSE, 1012)

        async def has_let_go() -> bool:
            return bool((await a.request("GET", "/v0/players/p")).json().get("node") == "b")

        await eventually(has_let_go, "it says who has it")


async def test_one_that_is_cut_off_alone_falls_silent_and_comes_back(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster, cuttable(cluster.engine) as cut:
        await cluster.start_behind("c", cut.url)
        b, c = cluster.nodes["b"], cluster.nodes["c"]
        await b.request("POST", "/v0/players", {"id": "p", "uri": "song.wav", "node": "c"})
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{c.url}/v0/players/p/ws") as frames:
            await frames.receive()
            cut.cut()
            while (await frames.receive(timeout=20)).type is aiohttp.WSMsgType.BINARY:
                pass
            assert frames.close_code == 1012

        async def is_taken() -> bool:
            answer = await b.request("GET", "/v0/players/p")
            return bool(answer.status == 200 and answer.json()["node"] in ("a", "b"))

        await eventually(is_taken, "another node has it")
        cut.mend()
        await eventually(cluster.all_are_one, "it is back")
        assert (await c.request("GET", "/v0/players/p")).json()["node"] in ("a", "b")


async def test_what_a_node_cannot_start_with(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a") as cluster:
        for config, reason in (
            (cluster.node_config("a"), "a living node is called a already; set cluster.node to another name"),
            (cluster.node_config("z").replace(str(cluster.engine.port), "1"), "its engine is not there"),
        ):
            (tmp_path / "x.toml").write_text(config)
            ended = await asyncio.to_thread(run_tonearm, "serve", "--config", "x.toml", "--port", "0", folder=tmp_path)
            assert ended.returncode == 3
            assert reason in ended.stderr
            assert "Traceback" not in ended.stderr
        (tmp_path / "x.toml").write_text(cluster.node_config("z") + '[state]\npath = "x"\n')
        ended = await asyncio.to_thread(run_tonearm, "serve", "--config", "x.toml", folder=tmp_path)
        assert ended.returncode == 2
        assert "path and cluster.url exclude each other" in ended.stderr


async def test_two_nodes_share_a_port_and_each_has_one_of_its_own(tmp_path: Path) -> None:
    with socket.socket() as one, socket.socket() as other, socket.socket() as shared:
        for free in (one, other, shared):
            free.bind(("127.0.0.1", 0))
        own, ports = shared.getsockname()[1], [free.getsockname()[1] for free in (one, other)]
    async with running_cluster(tmp_path) as cluster, contextlib.AsyncExitStack() as stack:
        for name, port in zip("ab", ports, strict=True):
            (tmp_path / name).mkdir()
            config = cluster.node_config(name) + f'address = "http://127.0.0.1:{port}"\n'
            config += "[server]\nreuse_port = true\n"
            await stack.enter_async_context(running_node(tmp_path / name, config, arguments=("--port", str(own))))
        for port in (own, *ports):
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

                async def sees_both(session: aiohttp.ClientSession = session) -> bool:
                    async with session.get("/v0/nodes") as answer:
                        nodes = (await answer.json())["nodes"]
                    return [node["alive"] for node in nodes] == [True, True]

                await eventually(sees_both, "it sees both")
        answered = set()
        for _ in range(50):
            where = f"http://127.0.0.1:{own}/v0/nodes/self"
            async with aiohttp.ClientSession() as session, session.get(where) as answer:
                answered.add((await answer.json())["name"])
        assert answered == {"a", "b"}


async def test_a_cluster_that_was_stopped_has_all_its_players_again(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, b = cluster.nodes.values()
        for number in range(4):
            await a.request("POST", "/v0/players", {"id": f"p{number}", "uri": "song.wav"})
        for node in (a, b):
            await asyncio.to_thread(node.kill)
        cluster.nodes.clear()
        _, b = await cluster.start("a", "b")

        async def are_there() -> bool:
            return len((await b.request("GET", "/v0/players")).json()) == 4

        await eventually(are_there, "all players are back")


async def test_what_stands_in_the_engine_may_be_anything(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", prepare=songs) as cluster:
        (a,) = cluster.nodes.values()
        connection = await nats.connect(cluster.engine.url)
        stream = connection.jetstream()
        players, nodes = await stream.key_value("ta_test_players"), await stream.key_value("ta_test_nodes")
        head = b'{"owner": "gone", "epoch": 1, "token": "x", "packed": %s}\n'
        for number, value in enumerate(
            (
                b"",
                b"rubbish",
                b"[" * 100_000,
                b"{}",
                head % b"false" + b"{}",
                head % b"true" + b"not packed",
                head % b"false" + b'{"version": 99, "id": "k4"}',
                head % b"false" + b"[" * 100_000,
                head % b"true" + zlib.compress(b"0" * 100_000_000),
                b'{"address": "", "players": 1, "load": 1' + b"0" * 400 + b"}",
                TRUE_RECORD % b"http://[::",
                b'{"owner": "a\\nb", "epoch": 1, "token": "x"}\n{}',
                b'{"owner": "gone", "epoch": ' + b"9" * 4300 + b', "token": "x"}\n{}',
            )
        ):
            await players.put(base64.urlsafe_b64encode(b"k%d" % number).decode().rstrip("="), value)
            await nodes.put(base64.urlsafe_b64encode(b"n%d" % number).decode().rstrip("="), value)
        await nodes.put(base64.urlsafe_b64encode(b"a\r\nb").decode().rstrip("="), TRUE_RECORD % b"http://a")
        await players.put("not_base64_of_anything", b"x")
        await asyncio.sleep(2 * LEASE_S + 2)
        assert (await a.request("POST", "/v0/players", {"id": "mine", "uri": "song.wav"})).status == 201
        assert [player["id"] for player in (await a.request("GET", "/v0/players")).json()] == ["mine"]
        assert set(await nodes_of(a)) == {"a"}
        newer = await players.get(base64.urlsafe_b64encode(b"k6").decode().rstrip("="))
        assert b"99" in (newer.value or b"")  # it is left as it is
        await connection.close()


async def test_a_browser_that_logs_in_at_one_node_is_known_at_all(tmp_path: Path) -> None:
    config = '[server]\npassword = "sesame"\n[dashboard]\nlogin = true'
    async with running_cluster(tmp_path, "a", "b", config=config, headers=[("Authorization", b"sesame")]) as cluster:
        a, b = cluster.nodes.values()

        async def log_in(node: RunningNode) -> str:
            answer = await node.request("POST", "/dashboard/login", {"password": "sesame"})
            assert answer.status == 204, answer.body
            return (answer.header("Set-Cookie") or "").partition(";")[0]

        async def status_at(node: RunningNode, cookie: str) -> int:
            return (await node.request("GET", "/v0/players", headers=[("Cookie", cookie)])).status

        cookie = await log_in(a)
        assert [await status_at(node, cookie) for node in (a, b)] == [200, 200]
        assert (await b.request("POST", "/dashboard/logout", headers=[("Cookie", cookie)])).status == 204
        assert [await status_at(node, cookie) for node in (a, b)] == [401, 401]
        assert await status_at(b, await log_in(a)) == 200
