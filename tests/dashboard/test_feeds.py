"""What the page knows of players, when events and answers overtake each other: it runs in node."""

from pathlib import Path

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page

# `asked` has what waits for an answer, by its path; `told` sends an event by the newest socket.
NODE = """
import { drawn, handTime } from "./small_dom.mjs";
import { NodeApi } from "./api.js";
import { NodeFeed, PlayerFeed } from "./feeds.js";
const pass = handTime();
const asked = [];
const sockets = [];
globalThis.fetch = (url, { signal } = {}) =>
  new Promise((done) => asked.push({ path: url.pathname.split("/v0/")[1], query: url.search, signal, done }));
globalThis.WebSocket = class { constructor() { sockets.push(this); } close() {} };
const api = new NodeApi({ name: "n", path: "node", streams: "", clip: "", login: false, cluster: false });
const answer = async (path, value, status = 200) => {
  const [{ done }] = asked.splice(asked.findIndex((one) => one.path === path), 1);
  done(Response.json(value, { status }));
  await drawn();
};
const told = (event) => sockets.at(-1).onmessage({ data: JSON.stringify({ time: 0, ...event }) });
const stats = { uptime: 1, processes: [], framesLate: {}, listeners: {} };
const player = (id, seq, life = "a") => ({ id, seq, life, trackId: "", loop: "none", error: null });
"""
NODE_PAGE = (
    NODE
    + """
const feed = new NodeFeed(api);
await answer("stats", stats);
sockets.at(-1).onopen();
await answer("players", []);
"""
)


@needs("node")
def test_an_event_that_overtakes_a_new_players_state_counts(tmp_path: Path) -> None:
    program = """
    told({ op: "PlayerCreate", id: "p", life: "a" });
    told({ op: "LoopModeChange", id: "p", life: "a", seq: 3, mode: "queue" });
    await answer("players/p", player("p", 2));
    console.log(JSON.stringify(feed.players.get("p").loop));
    feed.close();
    """
    assert run_page(tmp_path, NODE_PAGE + program) == "queue"


@needs("node")
def test_a_player_with_another_life_is_read_and_one_that_is_not_found_is_gone(tmp_path: Path) -> None:
    program = """
    for (const id of ["p", "q"]) {
      told({ op: "PlayerCreate", id, life: "a" });
      await answer(`players/${id}`, player(id, 50));
      told({ op: "LoopModeChange", id, life: "b", seq: 3, mode: "queue" });
    }
    await answer("players/p", { ...player("p", 3, "b"), loop: "queue" });
    await answer("players/q", { code: "player_not_found" }, 404);
    console.log(JSON.stringify([...feed.players.values()].map(({ id, life, loop }) => [id, life, loop])));
    feed.close();
    """
    assert run_page(tmp_path, NODE_PAGE + program) == [["p", "b", "queue"]]


@needs("node")
def test_what_comes_late_of_a_players_former_life_does_not_take_it_from_the_list(tmp_path: Path) -> None:
    program = """
    const lives = [];
    told({ op: "PlayerCreate", id: "p", life: "b" });
    told({ op: "PlayerDelete", id: "p", life: "a", seq: 9 }); // another node of the cluster had it
    await answer("players/p", player("p", 1, "b"));
    await answer("players/p", player("p", 1, "b")); // it is read again
    lives.push(feed.players.get("p")?.life);
    told({ op: "PlayerCreate", id: "p", life: "c" });
    told({ op: "PlayerCreate", id: "p", life: "d" });
    asked.reverse(); // the newer answer comes first
    await answer("players/p", player("p", 1, "d"));
    await answer("players/p", { code: "player_not_found" }, 404);
    lives.push(feed.players.get("p")?.life);
    console.log(JSON.stringify(lives));
    feed.close();
    """
    assert run_page(tmp_path, NODE_PAGE + program) == ["b", "d"]


@needs("node")
def test_an_event_of_a_players_next_life_that_overtakes_its_state_counts(tmp_path: Path) -> None:
    program = """
    const feed = PlayerFeed.of(api, "p");
    await answer("players/p", player("p", 50));
    sockets.at(-1).onopen();
    told({ op: "PlayerMoved", id: "p", life: "b", seq: 1 });
    await pass(150); // by then the state is read
    told({ op: "LoopModeChange", id: "p", life: "b", seq: 3, mode: "queue" });
    await answer("players/p", player("p", 2, "b"));
    await pass(150);
    await answer("players/p", { ...player("p", 3, "b"), loop: "queue" });
    console.log(JSON.stringify([feed.state.life, feed.state.loop]));
    feed.close();
    """
    assert run_page(tmp_path, NODE + program) == ["b", "queue"]


@needs("node")
def test_a_page_that_was_logged_out_elsewhere_says_so_though_its_socket_stays(tmp_path: Path) -> None:
    program = """
    const shown = PlayerFeed.of(api, "p");
    await answer("players/p", player("p", 1));
    sockets.at(-1).onopen();
    await pass(1500); // the figures are asked for
    await answer("stats", { code: "unauthorized", message: "Log in." }, 401);
    told({ op: "PlayerUpdate", id: "p", life: "a", seq: 2 });
    await pass(150); // the state is read
    await answer("players/p", { code: "unauthorized", message: "Log in." }, 401);
    console.log(JSON.stringify([feed.connection, shown.connection]));
    """
    assert run_page(tmp_path, NODE_PAGE + program) == ["refused", "refused"]


@needs("node")
def test_a_connection_that_died_in_sleep_is_made_anew(tmp_path: Path) -> None:
    program = """
    const states = {};
    for (const doing of ["idle", "playing"]) {
      const feed = PlayerFeed.of(api, doing);
      await answer(`players/${doing}`, { ...player(doing, 1), state: doing });
      sockets.at(-1).onopen();
      await pass(15_000);
      told({ op: "ListenersChange", id: doing, life: "a", seq: 2, listeners: 0 });
      await pass(15_000);
      states[doing] = [feed.connection];
      await pass(10_000);
      states[doing].push(feed.connection);
      feed.close();
    }
    console.log(JSON.stringify(states));
    """
    assert run_page(tmp_path, NODE + program) == {"idle": ["open", "open"], "playing": ["open", "lost"]}
