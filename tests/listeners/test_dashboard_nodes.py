"""The dashboard in Chromium: the nodes of a cluster, which are drained there, and a player that is moved."""

from pathlib import Path

from tests.support.audio_files import tone, wav
from tests.support.browser import browsing
from tests.support.e2e_players import until_state
from tests.support.running_cluster import running_cluster


def songs(folder: Path) -> None:
    (folder / "song.wav").write_bytes(wav(tone(440, 120.0)))


async def test_a_node_is_drained_and_a_player_moved_by_a_click(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "a", "b", prepare=songs) as cluster:
        a, b = cluster.nodes.values()
        made = await a.request("POST", "/v0/players", {"id": "lobby", "uri": "song.wav", "node": "a"})
        assert made.status == 201
        async with browsing(f"{a.url}/dashboard/#/0/lobby/details") as browser:
            await browser.shows("The player is at a.")
            await browser.button("Move to b").click()
            await browser.shows("The player is at b.")
            assert await browser.violations() == []
            await until_state(b, "lobby", lambda now: now["node"] == "b")
            await browser.page.goto(f"{a.url}/dashboard/#/0")
            table = browser.page.get_by_role("table", name="Nodes")
            await table.get_by_role("rowheader", name="b", exact=True).wait_for()
            assert await browser.violations() == []
            await browser.button("Drain b").click()
            await browser.button("Stop draining b").wait_for()
            await until_state(a, "lobby", lambda now: now["node"] == "a")
            await table.get_by_role("cell", name="draining", exact=True).wait_for()
            await browser.button("Stop draining b").click()
            await browser.button("Drain b").wait_for()
