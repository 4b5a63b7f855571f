"""Nodes with another idea than the others: of the engine's password, of who has a player, of files, of the time."""

import asyncio
import base64
import contextlib
import signal
import socket
import time
from pathlib import Path

import nats
import nats.errors

from tests.support.audio_files import tone, wav
from tests.support.certificate import certificate_file
from tests.support.command import run_tonearm
from tests.support.eventually import eventually
from tests.support.processes import standing_still
from tests.support.running_cluster import Engine, RunningCluster, cuttable, running_cluster
from tests.support.running_node import RunningNode, start_node
from tonearm.cluster.engine import Engine as EngineConnection
from tonearm.cluster.engine import EngineSettings

SONG = wav(tone(440, 60.0))
HOURS_S = 3 * 3600


def songs(folder: Path) -> None:
    (folder / "song.wav").write_bytes(SONG)


async def test_a_wrong_password_of_the_engine_is_told_in_one_line(tmp_path: Path) -> None:
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(f"{name}\n")
    config = f'user = "tonearm"\npassword_file = "{tmp_path / "right"}"\n'
    engine_config = 'authorization { user: "tonearm", password: "right" }\n'
    async with running_cluster(tmp_path, "a", config=config, engine_config=engine_config) as cluster:
        for wrong in (config.replace("right", "wrong"), ""):
            (tmp_path / "x.toml").write_text(cluster.node_config("b").replace(config, wrong))
            begun_s = time.monotonic()
            ended = await asyncio.to_thread(run_tonearm, "serve", "--config", "x.toml", "--port", "0", folder=tmp_path)
            assert ended.returncode == 3
            (line,) = ended.stderr.splitlines()
            refusal = f"the cluster test: {cluster.engine.url} refuses the credentials; mend cluster.user, "
            assert refusal in line
            assert time.monotonic() - begun_s < 60


async def test_an_engine_that_cannot_be_trusted_is_told_as_such(tmp_path: Path) -> None:
    pem = certificate_file(tmp_path)  # which nobody has signed
    async with running_cluster(tmp_path, engine_config=f'tls {{ cert_file: "{pem}", key_file: "{pem}" }}\n') as cluster:
        (tmp_path / "x.toml").write_text(cluster.node_config("b"))
        ended = await asyncio.to_thread(run_tonearm, "serve", "--config", "x.toml", "--port", "0", folder=tmp_path)
        assert ended.returncode == 3
        assert "certificate verify failed" in ended.stderr


async def test_a_node_joins_an_engine_whose_buckets_were_configured_by_hand(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a") as cluster:
        connection = await nats.connect(cluster.engine.url)
        stream = connection.jetstream()
        for name in ("nodes", "players"):
            config = (await stream.stream_info(f"KV_ta_test_{name}")).config
            await stream.update_stream(config, max_bytes=100_000_000)  # as more replicas, which want more servers
        await connection.close()
        (tmp_path / "b").mkdir()
        await cluster.start("b")


async def test_an_engine_of_three_servers_may_lose_any_one(tmp_path: Path) -> None:
    with contextlib.ExitStack() as taken:
        sockets = [taken.enter_context(socket.socket()) for _ in range(3)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in sockets]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    configs = [
        f"server_name: s{number}\ncluster {{ name: together, listen: 127.0.0.1:{port}, routes: [{routes}] }}\n"
        for number, port in enumerate(ports)
    ]
    async with running_cluster(tmp_path, engine_config=configs[0]) as cluster:
        servers = {"s0": cluster.engine}
        for number in (1, 2):
            (tmp_path / str(number) / "engine").mkdir(parents=True)
            servers[f"s{number}"] = Engine(tmp_path / str(number) / "engine", configs[number])
        try:
            for name in ("s1", "s2"):
                await asyncio.to_thread(servers[name].start)
            connection = await nats.connect([server.url for server in servers.values()])

            async def can_keep() -> bool:
                with contextlib.suppress(nats.errors.Error):
                    await connection.jetstream().add_stream(name="three", num_replicas=3)
                    return True
                return False

            await eventually(can_keep, "the servers have chosen their leader, which sees all three")
            cluster.engine.url = ", ".join(server.url for server in servers.values())
            for name in ("a", "b"):
                (tmp_path / name).mkdir()
                songs(tmp_path / name)
            a, b = await cluster.start("a", "b")
            await a.request("POST", "/v0/players", {"id": "p", "uri": "song.wav", "node": "a"})
            info = await connection.jetstream().stream_info("KV_ta_test_players")
            await connection.close()
            assert info.cluster is not None
            servers[str(info.cluster.leader)].kill()

            async def is_saved() -> bool:
                answer = await a.request("PATCH", "/v0/players/p/filters", {"volume": 0.5})
                return answer.status == 204 and answer.header("Tonearm-Unsaved") is None

            await eventually(is_saved, "the other two go on")
            await cluster.kill("a")

            async def is_taken() -> bool:
                return await cluster.owner("p") == "b"

            await eventually(is_taken, "the player goes on at the other node")
            assert (await b.request("GET", "/v0/players/p")).json()["volume"] == 0.5
        finally:
            for server in servers.values():
                server.kill()


async def test_the_largest_value_is_written_over_a_connection_that_stays(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, engine_config="max_payload: 8192\n") as cluster:
        engine = EngineConnection(EngineSettings(cluster.engine.url))
        await engine.connect()
        bucket = await engine.bucket("b")
        revision = await bucket.create("k", b"")
        assert await bucket.update("k", bytes(engine.largest_bytes), revision) > revision
        assert engine.reconnections == 0
        await engine.close()


async def test_nodes_come_back_to_an_engine_that_refused_them_for_a_while(tmp_path: Path) -> None:
    (tmp_path / "right").write_text("right\n")
    config = f'user = "tonearm"\npassword_file = "{tmp_path / "right"}"\n'
    right = 'authorization { user: "tonearm", password: "right" }\n'
    async with running_cluster(tmp_path, "a", config=config, prepare=songs, engine_config=right) as cluster:
        (node,) = cluster.nodes.values()
        await node.request("POST", "/v0/players", {"id": "p", "uri": "song.wav"})

        async def unsaved() -> str | None:
            return (await node.request("PATCH", "/v0/players/p/filters", {"volume": 0.5})).header("Tonearm-Unsaved")

        async def is_refused() -> bool:
            return (tmp_path / "engine.log").read_text().count("authentication error") >= 5

        async def is_saved() -> bool:
            return await unsaved() is None

        # The engine reads its configuration again, and then refuses a node that is connected, and one that comes anew.
        cluster.engine.configure(right.replace('password: "right"', 'password: "other"'))
        cluster.engine.signal(signal.SIGHUP)
        await eventually(is_refused, "the engine refuses the node")
        assert await unsaved() == "true"
        cluster.engine.configure(right)
        cluster.engine.signal(signal.SIGHUP)
        await eventually(is_saved, "the node is back")
        assert not [line for line in node.log if "Traceback" in line]


async def test_a_request_does_not_go_in_a_circle_between_nodes_that_think_the_other_has_the_player(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, "a", prepare=songs) as cluster, cuttable(cluster.engine) as cut:
        await cluster.start_behind("b", cut.url)
        a, b = cluster.nodes.values()
        connection = await nats.connect(cluster.engine.url)
        players = await connection.jetstream().key_value("ta_test_players")
        key = base64.urlsafe_b64encode(b"p").decode().rstrip("=")
        # Of a newer version, so that nobody takes it.
        value = b'{"owner": "%s", "epoch": 1, "token": "x", "packed": false}\n{"version": 99, "id": "p"}'
        await players.put(key, value % b"a")

        async def is_known() -> bool:
            return any("the record of player p cannot be read" in line for line in a.log)

        await eventually(is_known, "a knows of it")
        await asyncio.sleep(1.0)  # and so does b
        cut.cut()
        await players.put(key, value % b"b")
        begun_s = time.monotonic()
        asked = [
            node.request(method, f"/v0/players/p{path}", body)
            for node in (a, b)
            for method, path, body in (("GET", "", None), ("POST", "/pause", None), ("DELETE", "", None))
        ]
        answers = await asyncio.gather(*asked)
        assert time.monotonic() - begun_s < 30
        assert {(answer.status, answer.json()["code"]) for answer in answers} == {(404, "player_not_found")}
        await connection.close()
        cut.mend()


async def test_a_node_whose_name_another_one_takes_while_it_runs_ends_with_a_failure(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a") as cluster:
        node = cluster.nodes.pop("a")
        connection = await nats.connect(cluster.engine.url)
        nodes = await connection.jetstream().key_value("ta_test_nodes")
        await nodes.put(base64.urlsafe_b64encode(b"a").decode().rstrip("="), b'{"instance": "another"}')
        await connection.close()
        assert await node.ended() == 3
        assert node.log[-1].startswith(
            "tonearm: the cluster test: another node has taken this node's name; set cluster."
        )
        assert "Traceback" not in "".join(node.log)


async def test_a_file_is_played_by_the_node_that_has_the_player(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b") as cluster:
        a, _ = cluster.nodes.values()
        (tmp_path / "shared.wav").write_bytes(SONG)
        (tmp_path / "a" / "own.wav").write_bytes(SONG)
        for name, uri in (("p", str(tmp_path / "shared.wav")), ("q", "own.wav")):
            made = await a.request("POST", "/v0/players", {"id": name, "uri": uri, "node": "b"})
            assert (made.status, made.header("Tonearm-Node")) == (201, "b")

        async def state(player: str) -> str:
            return str((await a.request("GET", f"/v0/players/{player}")).json()["state"])

        async def plays() -> bool:
            return await state("p") == "playing"

        await eventually(plays, "a file that both nodes have is played")

        async def fails() -> bool:
            return await state("q") == "failed"

        await eventually(fails, "a file that only the node has that was asked fails")
        error = (await a.request("GET", "/v0/players/q")).json()["error"]
        assert error["code"] == "file_missing"
        assert str(tmp_path / "b") in error["hint"], "which node's folder it is"


async def start_elsewhen(cluster: RunningCluster, name: str, ahead_s: int) -> RunningNode:
    (cluster.folder / name).mkdir(exist_ok=True)
    songs(cluster.folder / name)
    variables = {"CLOCK_AHEAD_S": str(ahead_s), "PYTHONPATH": str(Path(__file__).parents[2])}
    config, program = cluster.node_config(name), "tests.support.tonearm_elsewhen"
    node = await asyncio.to_thread(start_node, cluster.folder / name, config, (), variables, program)
    cluster.nodes[name] = node
    return node


async def test_clocks_that_are_hours_apart_take_no_player_elsewhere_in_time(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        a = await start_elsewhen(cluster, "a", -HOURS_S)
        await start_elsewhen(cluster, "b", HOURS_S)
        await eventually(cluster.all_are_one, "all nodes see each other")
        await a.request("POST", "/v0/players", {"id": "p", "uri": "song.wav", "node": "a"})
        await a.request("POST", "/v0/players/p/queue", {"uri": "song.wav"})

        async def position_s() -> float:
            shown = (await cluster.nodes[min(cluster.nodes)].request("GET", "/v0/players/p")).json()
            assert shown["queueLength"] == 1
            return float(shown["position"]) / 1000

        async def plays() -> bool:
            return await position_s() > 0.5

        await eventually(plays, "it plays")
        for to in "ba":
            before_s, begun_s = await position_s(), time.monotonic()
            assert (await a.request("POST", "/v0/players/p/move", {"node": to})).status == 204
            assert before_s <= await position_s() <= before_s + time.monotonic() - begun_s + 0.5
        await a.request("POST", "/v0/players/p/move", {"node": "b"})
        before_s, begun_s = await position_s(), time.monotonic()
        await cluster.kill("b")

        async def is_taken() -> bool:
            return await cluster.owner("p") == "a"

        await eventually(is_taken, "the other node has it")
        assert before_s <= await position_s() <= before_s + time.monotonic() - begun_s + 1.0
        await start_elsewhen(cluster, "b", HOURS_S)
        await eventually(cluster.all_are_one, "all nodes see each other again")
        with standing_still(a.pid):
            del cluster.nodes["a"]
            try:
                await eventually(lambda: cluster.owner("p"), "it goes on at the node that came later")
            finally:
                cluster.nodes["a"] = a
        assert before_s <= await position_s() <= before_s + time.monotonic() - begun_s + 1.0
