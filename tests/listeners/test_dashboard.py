"""The dashboard in Chromium: what is done there happens at the node, and what happens at the node is seen there."""

from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.audio_files import flac, tone, wav
from tests.support.browser import Browser, browsing
from tests.support.dashboard_command import dashboard_before_two
from tests.support.e2e_players import create, done, enqueue, order, patch, state, until_state, waiting_uris
from tests.support.eventually import eventually
from tests.support.pictures import flac_with, png
from tests.support.running_node import RunningNode, running_node

# Both before anything is drawn.
ANOTHER_TAB_AND_SLASH = """
    document.getElementById('tab-sound').click();
    document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '/', bubbles: true}));
"""
PHONE = {"width": 390, "height": 844}


def media(folder: Path) -> None:
    (folder / "one.flac").write_bytes(flac_with(tone(1000, 120.0), png()))
    (folder / "two.flac").write_bytes(flac(tone(400, 120.0)))
    (folder / "three.wav").write_bytes(wav(tone(600, 120.0)))
    (folder / "horn.wav").write_bytes(wav(tone(2000, 20.0)))


@asynccontextmanager
async def at_player(folder: Path, **context: object) -> AsyncIterator[tuple[RunningNode, Browser]]:
    """A page that shows the player `lobby`, which plays the first of three files."""
    media(folder)
    async with running_node(folder) as node:
        await create(node, "lobby", "one.flac")
        await enqueue(node, "lobby", "two.flac")
        await enqueue(node, "lobby", "three.wav")
        await until_state(node, "lobby", lambda now: now["state"] == "playing")
        async with browsing(f"{node.url}/dashboard/#/0/lobby", **context) as browser:
            await browser.button("Pause").wait_for()
            yield node, browser


async def test_a_newcomer_hears_a_player_after_one_click(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, browsing(f"{node.url}/dashboard", viewport=PHONE) as browser:
        for name in ("Try the welcome clip", "New player"):  # both in the first screen
            box = await browser.button(name).bounding_box()
            assert box["y"] + box["height"] < PHONE["height"]
        await browser.button("Try the welcome clip").click()
        await browser.page.get_by_role("heading", name="demo").wait_for()
        await until_state(node, "demo", lambda now: now["state"] == "playing" and now["listeners"] == 1)
        await browser.until("level() > 0.01")
        await browser.button("Pause").click()
        await until_state(node, "demo", lambda now: now["paused"])
        await browser.page.go_back()
        table = browser.page.get_by_role("table", name="Players")
        assert (await table.bounding_box())["y"] < 600


async def test_the_sound_goes_on_while_one_looks_around(tmp_path: Path) -> None:
    async with at_player(tmp_path) as (node, browser):
        page, bar = browser.page, browser.bar
        await create(node, "hall", "two.flac")
        await browser.button("Listen here").click()
        await browser.hears(1000)
        await browser.until("navigator.mediaSession.metadata?.title === 'one'")
        assert await page.evaluate("navigator.mediaSession.playbackState") == "playing"
        await page.get_by_role("link", name="tonearm").click()
        await bar.get_by_role("link", name="lobby").wait_for()
        await browser.hears(1000)
        await bar.get_by_role("button", name="Pause").click()
        await browser.hears_nothing()
        await browser.until("navigator.mediaSession.playbackState === 'paused'")
        await bar.get_by_role("button", name="Play", exact=True).click()
        await bar.get_by_role("button", name="Skip").click()
        await browser.hears(400)
        await bar.get_by_role("button", name="Mute").click()
        await browser.hears_nothing()
        await bar.get_by_role("button", name="Unmute").click()
        await bar.get_by_role("slider", name="My volume").fill("0.25")
        await browser.until("level() > 0.001 && level() < 0.2")
        assert (await state(node, "lobby"))["volume"] == 1
        row = page.get_by_role("row", name="hall")
        await row.get_by_role("button", name="Listen here").click()  # takes its place
        await until_state(node, "lobby", lambda now: now["listeners"] == 0)
        await until_state(node, "hall", lambda now: now["listeners"] == 1)
        await bar.get_by_role("link", name="hall").click()
        await browser.button("Stop listening").click()
        await until_state(node, "hall", lambda now: now["listeners"] == 0)
        await bar.wait_for(state="detached")
        await page.evaluate(
            "document.querySelectorAll('.listen button').forEach(one => {for (let i = 0; i < 4; i++) one.click()})"
        )
        await browser.button("Listen here").click()
        await until_state(node, "hall", lambda now: now["listeners"] == 1)
        assert await bar.get_by_role("slider", name="My volume").input_value() == "0.25"  # it is kept
        await browser.button("Stop listening").click()
        await until_state(node, "hall", lambda now: now["listeners"] == 0)


async def test_keys_steer_the_player_unless_something_else_uses_them(tmp_path: Path) -> None:
    async with at_player(tmp_path) as (node, browser):
        page, keyboard = browser.page, browser.page.keyboard

        async def does(key: str, holds: Callable[[Any], object]) -> None:
            await keyboard.press(key)
            await until_state(node, "lobby", holds)

        await done(node, "PATCH", "/v0/players/lobby/position", {"position": 60_000})
        await does("Space", lambda now: now["paused"])
        await browser.button("Play").wait_for()
        for key, expected in (("j", 50), ("l", 60), ("ArrowRight", 65), ("ArrowLeft", 60)):
            await keyboard.press(key)
            await eventually(partial(_is_at, node, expected), f"{key} goes to {expected} s")
        await does("k", lambda now: not now["paused"])
        await does("ArrowUp", lambda now: now["volume"] == 1.05)
        await does("ArrowDown", lambda now: now["volume"] == 1)
        await does("n", lambda now: now["track"]["info"]["title"] == "two")
        await does("p", lambda now: now["track"]["info"]["title"] == "one")
        await browser.tab("Sound")
        await browser.field("Add to queue").wait_for(state="detached")
        await keyboard.press("/")
        await browser.until("document.activeElement.ariaLabel === 'Add to queue'")
        await page.evaluate(ANOTHER_TAB_AND_SLASH)
        await browser.until("document.activeElement.ariaLabel === 'Add to queue' && !location.hash.endsWith('sound')")
        await page.wait_for_timeout(100)  # what was chosen before would be drawn by now
        await keyboard.type("jk ?")
        assert await browser.field("Add to queue").input_value() == "jk ?"
        await browser.slider("Volume").focus()
        await does("ArrowLeft", lambda now: now["volume"] == 0.99)
        await browser.button("Stop").focus()
        await does("Space", lambda now: now["state"] == "idle")
        await keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keys")
        await dialog.get_by_role("checkbox", name="Keys").uncheck()
        assert await browser.violations() == []
        await keyboard.press("Escape")
        await page.reload()  # the browser has kept it
        await browser.button("Play").wait_for()
        await keyboard.press("?")
        await keyboard.press("k")
        await browser.button("Keys").click()
        await dialog.wait_for()
        assert (await state(node, "lobby"))["state"] == "idle"


async def test_nothing_is_lost_by_a_slip(tmp_path: Path) -> None:
    async with at_player(tmp_path) as (node, browser):
        page = browser.page
        body = {"uri": "horn.wav", "index": 1, "startMs": 1000, "endMs": 5000, "metadata": {"by": "ada"}}
        assert (await node.request("POST", "/v0/players/lobby/queue", body)).status == 201
        undo = page.get_by_role("button", name="Undo")

        async def is_back() -> bool:
            answer = await node.request("GET", "/v0/players/lobby/queue?details=true")
            tracks = [(track["uri"], track["metadata"], track.get("startMs")) for track in answer.json()]
            return tracks == [("two.flac", {}, 0), ("horn.wav", {"by": "ada"}, 1000), ("three.wav", {}, 0)]

        await browser.button("Remove horn").focus()
        await page.keyboard.press("Enter")
        await browser.shows("horn was removed.")
        await eventually(lambda: _order_is(node, "two.flac", "three.wav"), "it is gone")
        await browser.until("document.activeElement.ariaLabel === 'Remove three'")
        await undo.click()
        await eventually(is_back, "it is back")
        await browser.button("Clear queue").focus()
        await page.keyboard.press("Enter")
        await browser.shows("3 tracks were cleared.")
        await browser.until("document.activeElement.ariaLabel === 'Add to queue'")
        await undo.click()
        await eventually(is_back, "all are back")
        first = (await node.request("GET", "/v0/players/lobby/queue")).json()[0]["id"]
        await page.locator(f"[data-track='{first}']").get_by_role("button", name="Jump to two").focus()
        await page.keyboard.press("Enter")
        await browser.until("document.activeElement.ariaLabel === 'Jump to horn'")


async def test_what_failed_can_be_mended(tmp_path: Path) -> None:
    async with at_player(tmp_path) as (node, browser):
        page = browser.page
        await create(node, "broken", "nothing.flac")
        await page.goto(f"{node.url}/dashboard/#/0/broken")
        await browser.shows(f"looks for it in {tmp_path}.")
        await browser.button("Change address").click()
        await browser.field("New address").fill("nothing2.flac")
        await browser.field("New address").press("Enter")
        await browser.page.locator(".playing-title", has_text="nothing2").wait_for()
        (tmp_path / "nothing2.flac").write_bytes((tmp_path / "two.flac").read_bytes())
        await browser.button("Try again").click()
        await until_state(node, "broken", lambda now: now["state"] == "playing")


async def test_music_is_chosen_in_folders_and_sent_by_dropping_it(tmp_path: Path) -> None:
    media(tmp_path)
    (tmp_path / "Jazz" / "in").mkdir(parents=True)
    for number in range(300):
        (tmp_path / "Jazz" / f"song {number}.flac").write_bytes(b"")
    (tmp_path / "Jazz" / "in" / "<b>deep.flac").write_bytes((tmp_path / "two.flac").read_bytes())
    config = f'[library]\nfolders = ["{tmp_path}"]\nuploads = "{tmp_path}/in"\n[sources]\nprivate_networks = true\n'
    (tmp_path / "in").mkdir()
    async with running_node(tmp_path, config) as node, browsing(f"{node.url}/dashboard") as browser:
        page = browser.page
        dialog = page.get_by_role("dialog", name="Choose music")
        files, folders = dialog.get_by_role("list", name="Files"), dialog.get_by_role("navigation", name="Folders")
        await create(node, "lobby", "one.flac", paused=True)
        await page.get_by_role("link", name="lobby").click()
        await browser.button("Browse").click()
        await files.get_by_role("button", name=tmp_path.name).press("Enter")
        await files.get_by_role("button", name="Jazz").focus()
        await page.keyboard.press("Enter")
        await files.get_by_role("checkbox", name="song 0", exact=False).wait_for()
        await browser.until("document.activeElement.innerText === 'in'")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Space")
        await dialog.get_by_role("button", name="Add 1 track", exact=True).wait_for()
        await dialog.get_by_role("button", name="Select all").click()
        await dialog.get_by_role("button", name="Add 300 tracks").wait_for()
        await files.evaluate("(list) => list.scrollTo(0, list.scrollHeight)")
        await files.get_by_role("checkbox", name="song 299.flac").wait_for()
        assert await browser.violations() == []
        await dialog.get_by_role("searchbox", name="Search files").fill("deep")
        await files.get_by_role("checkbox", name="<b>deep.flac").wait_for()
        await folders.get_by_role("button", name=tmp_path.name).click()
        await files.get_by_role("checkbox", name="two.flac").wait_for()
        await page.keyboard.press("Escape")
        await dialog.wait_for(state="detached")
        await browser.button("Browse").click()
        await files.get_by_role("button", name=tmp_path.name).click()
        for name in ("three.wav", "two.flac"):
            await files.get_by_role("checkbox", name=name).check()
        await dialog.get_by_role("button", name="Add 2 tracks").click()
        await eventually(
            lambda: _order_is(node, *(f"{tmp_path}/{name}" for name in ("three.wav", "two.flac"))), "added"
        )
        await done(node, "DELETE", "/v0/players/lobby/queue")

        await _give(page, "drop", {"mine.flac": (tmp_path / "two.flac").read_bytes(), "broken.wav": b"nothing"})
        await page.get_by_role("list", name="Uploads").get_by_text("mine.flac").wait_for()
        await browser.shows("broken.wav: ")
        await _give(page, "paste", {"pasted.wav": (tmp_path / "three.wav").read_bytes()})
        await until_state(node, "lobby", lambda now: now["queueLength"] == 2)
        await browser.button("Browse").click()
        async with page.expect_file_chooser() as chooser:
            await dialog.get_by_role("button", name="Upload").click()
        await (await chooser.value).set_files(tmp_path / "horn.wav")
        await until_state(node, "lobby", lambda now: now["queueLength"] == 3)
        await page.keyboard.press("Escape")
        sent = ("mine.flac", "pasted.wav", "horn.wav")
        await eventually(lambda: _order_is(node, *(f"{tmp_path}/in/{name}" for name in sent)), "in their order")
        assert {path.name for path in (tmp_path / "in").iterdir()} == set(sent)


async def test_the_board_is_the_players(tmp_path: Path) -> None:
    async with at_player(tmp_path) as (node, browser):
        page = browser.page
        await page.evaluate("localStorage.setItem('tonearm.soundboard', JSON.stringify([{uri: 'horn.wav'}]))")
        await browser.tab("Soundboard")  # what the browser kept before is taken over
        board = [{"uri": "horn.wav", "name": "horn.wav", "key": "1", "volume": 1, "duckDb": -12}]
        await until_state(node, "lobby", lambda now: now["metadata"] == {"board": board})
        await browser.field("Sound").fill("nothing.wav")
        await browser.button("Keep").click()
        await browser.button("nothing.wav").click()
        await page.locator(".pad.failed", has_text="There is no such file").wait_for()
        await browser.tab("Queue")
        await page.keyboard.press("1")
        await until_state(node, "lobby", lambda now: len(now["overlays"]) == 1)
        await browser.tab("Soundboard")
        await browser.button("End horn.wav").click()
        await until_state(node, "lobby", lambda now: not now["overlays"])
        await browser.button("Settings of horn.wav").click()
        await browser.slide("Loudness", 0.5)
        await until_state(node, "lobby", lambda now: now["metadata"]["board"][0]["volume"] == 0.5)
        await browser.button("Forget nothing.wav").click()
        await until_state(node, "lobby", lambda now: len(now["metadata"]["board"]) == 1)


async def test_a_browser_logs_in_and_is_asked_no_more(tmp_path: Path) -> None:
    config = '[server]\npassword = "sesame"\n[dashboard]\nlogin = true\n'
    async with running_node(tmp_path, config) as node, browsing(f"{node.url}/dashboard") as browser:
        password = browser.page.get_by_label("Password of the node")
        await password.fill("guess")
        await browser.button("Log in").click()
        await browser.shows("The password is wrong.")
        await password.fill("sesame")
        await password.press("Enter")
        await browser.button("New player").first.click()
        await browser.field("Name").fill("attic")
        await browser.button("Create").click()
        await browser.shows("attic")
        answer = await node.request("GET", "/v0/players/attic", headers=(("Authorization", "sesame"),))
        assert answer.status == 200
        await browser.page.goto(f"{node.url}/dashboard")
        await browser.button("New player").first.wait_for()
        await browser.button("Log out").click()
        await password.wait_for()
        await browser.page.goto(f"{node.url}/dashboard")
        await password.wait_for()


async def test_players_are_created_found_and_sorted(tmp_path: Path) -> None:
    media(tmp_path)
    async with running_node(tmp_path) as node, browsing(f"{node.url}/dashboard") as browser:
        await browser.button("New player").click()
        await browser.field("Name").fill("attic")
        await browser.field("Address").fill("one.flac\ntwo.flac\nthree.wav")
        await browser.button("Create").click()
        await browser.button("Pause").wait_for()
        assert await waiting_uris(node, "attic") == ["two.flac", "three.wav"]
        await browser.page.go_back()

        await create(node, "cellar", "two.flac")  # elsewhere: the page hears of it
        table = browser.page.get_by_role("table", name="Players")
        await table.get_by_role("link", name="cellar").wait_for()
        assert await table.get_by_role("rowheader").all_inner_texts() == ["attic", "cellar"]
        await table.get_by_role("button", name="Player").click()
        assert await table.get_by_role("rowheader").all_inner_texts() == ["cellar", "attic"]
        await browser.page.get_by_role("searchbox", name="Search").fill("cel")
        await table.get_by_role("link", name="attic").wait_for(state="detached")
        await done(node, "DELETE", "/v0/players/cellar")
        await table.get_by_role("link", name="cellar").wait_for(state="detached")

        await browser.button("New player").click()
        await browser.field("Name").fill("attic")
        await browser.button("Create").click()
        await browser.shows("exists; delete it first")
        await browser.field("Name").fill("typo")
        await browser.field("Address").fill("nothing.mp3\ntwo.flac")
        await browser.button("Create").click()
        await browser.shows(f"looks for it in {tmp_path}.")  # and the name is free still
        await browser.field("Address").fill("two.flac")
        await browser.button("Create").click()
        await browser.button("Pause").wait_for()
        await browser.page.go_back()
        await create(node, "broken", "nothing.mp3")
        await browser.shows("There is no such file")
        await browser.shows("file_missing")


async def test_what_is_done_in_the_page_happens_at_the_node(tmp_path: Path) -> None:
    async with at_player(tmp_path) as (node, browser):
        page = browser.page
        await browser.button("Pause").click()
        await until_state(node, "lobby", lambda now: now["paused"])
        await browser.button("Play").click()
        await until_state(node, "lobby", lambda now: not now["paused"])
        await browser.slide("Position", 60_000)
        await until_state(node, "lobby", lambda now: 60_000 <= now["position"] < 100_000)
        await browser.slide("Volume", 0.5)
        await until_state(node, "lobby", lambda now: now["volume"] == 0.5)
        await page.get_by_role("combobox", name="Loop", exact=True).select_option("queue")
        await until_state(node, "lobby", lambda now: now["loop"] == "queue")
        await page.get_by_role("combobox", name="Loop", exact=True).select_option("none")

        queue = page.get_by_role("list", name="Queue", exact=True)
        await browser.field("Add to queue").fill("horn.wav")
        await browser.button("Add").click()
        await browser.shows("1 track added.")
        await eventually(lambda: _order_is(node, "two.flac", "three.wav", "horn.wav"), "it was added")
        await browser.button("Move up horn").click()
        await eventually(lambda: _order_is(node, "two.flac", "horn.wav", "three.wav"), "it was moved")
        await browser.button("Remove horn").click()
        await eventually(lambda: _order_is(node, "two.flac", "three.wav"), "it was removed")
        await queue.get_by_text("horn").wait_for(state="detached")
        await eventually(lambda: _are(queue.get_by_role("listitem"), 2), "two are shown")
        await queue.get_by_role("listitem").nth(1).drag_to(queue.get_by_role("listitem").nth(0))
        await eventually(lambda: _order_is(node, "three.wav", "two.flac"), "it was dragged")
        await browser.button("Jump to two").click()
        await until_state(node, "lobby", lambda now: now["track"]["info"]["title"] == "two")
        await eventually(lambda: _order_is(node), "what was before it is gone")
        await browser.button("Previous").click()
        await until_state(node, "lobby", lambda now: now["track"]["info"]["title"] == "one")
        await browser.button("Skip").click()
        await until_state(node, "lobby", lambda now: now["track"]["info"]["title"] == "two")
        for uri in ("one.flac", "three.wav"):
            await browser.field("Add to queue").fill(uri)
            await browser.field("Add to queue").press("Enter")
            await browser.shows("1 track added.")
        await eventually(lambda: _order_is(node, "one.flac", "three.wav"), "both wait")
        await browser.button("Shuffle").click()
        await browser.button("Clear queue").click()
        await eventually(lambda: _order_is(node), "it is empty")
        await browser.button("Stop").click()
        await until_state(node, "lobby", lambda now: now["state"] == "idle")
        await browser.button("Play").click()
        await until_state(node, "lobby", lambda now: now["state"] == "playing")

        await browser.button("Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await browser.shows("Nothing plays yet")
        assert (await node.request("GET", "/v0/players/lobby")).status == 404


async def test_the_sound_is_changed_in_the_page(tmp_path: Path) -> None:
    async with at_player(tmp_path) as (node, browser):
        page = browser.page
        await browser.tab("Sound")
        await page.get_by_label("63 Hz", exact=True).fill("6")
        await page.get_by_label("63 Hz", exact=True).blur()
        await until_state(node, "lobby", lambda now: now["eq"][2]["gain_db"] == 6)
        await page.get_by_label("63 Hz", exact=True).fill("3")
        await patch(node, "lobby", "filters", {"eq": [{"band": 14, "gain_db": 2}]})
        await browser.until("[...document.querySelectorAll('.bands input')].at(-1).value === '2'")
        await page.get_by_label("63 Hz", exact=True).blur()  # what is typed outlives a change by others
        await until_state(node, "lobby", lambda now: now["eq"][2]["gain_db"] == 3)
        curve = await page.locator(".curve").bounding_box()
        await page.mouse.move(curve["x"] + curve["width"] * 0.2, curve["y"] + curve["height"] * 0.75)
        await page.mouse.down()
        await page.mouse.move(curve["x"] + curve["width"] * 0.8, curve["y"] + curve["height"] * 0.25, steps=20)
        await page.mouse.up()
        drawn = await until_state(
            node, "lobby", lambda now: now["eq"][12]["gain_db"] > 6 and now["eq"][3]["gain_db"] < -6
        )
        gains = [band["gain_db"] for band in drawn["eq"]][3:13]
        assert gains == sorted(gains)
        await page.get_by_role("combobox", name="Preset").select_option(label="Nightcore")
        await until_state(node, "lobby", lambda now: now["timescale"] and now["eq"][12]["gain_db"] == 0)
        await page.get_by_role("switch", name="Echo").click()
        await page.get_by_label("Delay ms, as a number").fill("750")
        await page.get_by_label("Delay ms, as a number").blur()
        await until_state(node, "lobby", lambda now: now["echo"] and now["echo"]["delayMs"] == 750)
        await page.get_by_label("Delay ms, as a number").fill("5000")
        await page.get_by_label("Delay ms, as a number").blur()
        await browser.shows("is out of range; it is 1 to 2000")  # the node's own words
        await browser.button("All off").click()
        await until_state(node, "lobby", lambda now: now["echo"] is None and now["timescale"] is None)
        await browser.slide("Duration", 3000)
        await until_state(node, "lobby", lambda now: now["crossfade"]["durationMs"] == 3000)

        await browser.tab("Details")
        await browser.field("Metadata, as JSON").fill('{"channel": "lobby"')
        await browser.button("Save").click()
        await browser.shows("This is no JSON")
        await browser.field("Metadata, as JSON").fill('{"channel": "lobby"}')
        await browser.button("Save").click()
        await until_state(node, "lobby", lambda now: now["metadata"] == {"channel": "lobby"})


async def test_what_happens_at_the_node_is_seen_in_the_page(tmp_path: Path) -> None:
    async with at_player(tmp_path) as (node, browser):
        page = browser.page
        await browser.until("document.querySelector('.art img')?.naturalWidth === 8")
        await order(node, "lobby", "pause")
        await browser.button("Play").wait_for()
        await done(node, "PATCH", "/v0/players/lobby/position", {"position": 90_000})
        await browser.until("document.querySelector('[aria-label=Position]').valueAsNumber >= 90000")
        await patch(node, "lobby", "filters", {"volume": 0.25, "echo": {}})
        await browser.until("document.querySelector('[aria-label=Volume]').valueAsNumber === 0.25")
        await browser.tab("Sound")
        await page.locator("[role=switch][aria-checked=true]", has_text="Echo").wait_for()
        await browser.tab("Queue")
        await patch(node, "lobby", "loop", {"mode": "track"})
        await browser.until("document.querySelector('[aria-label=Loop]')?.value === 'track'")
        await order(node, "lobby", "skip", "play")
        await page.locator(".playing-title", has_text="two").wait_for()
        await enqueue(node, "lobby", "horn.wav")
        await page.get_by_role("list", name="Queue").get_by_text("horn").wait_for()
        await page.get_by_role("list", name="History").get_by_text("one").wait_for()
        await browser.tab("Details")
        await page.get_by_role("list", name="Events").locator("b", has_text="LoopModeChange").wait_for()
        await node.request("PUT", "/v0/players/lobby/track", {"uri": "nothing.mp3"})
        await browser.shows("There is no such file")
        await done(node, "DELETE", "/v0/players/lobby")
        await browser.shows("There is no player lobby.")


async def test_the_page_comes_back_with_the_node(tmp_path: Path) -> None:
    media(tmp_path)
    async with running_node(tmp_path) as first:
        await create(first, "lobby", "one.flac")
        port = first.port
        async with browsing(f"{first.url}/dashboard") as browser:
            await browser.page.get_by_role("link", name="lobby").click()
            await browser.button("Pause").wait_for()
            await browser.button("Listen here").click()
            await browser.hears(1000)
            other = await browser.page.context.new_page()
            await other.goto(f"{first.url}/dashboard")
            await other.get_by_role("link", name="lobby").wait_for()
            first.stop()
            await browser.shows("connection lost")
            await other.get_by_text("connection lost").wait_for()
            await browser.shows("unknown")
            assert await browser.button("Skip").is_disabled()
            async with running_node(tmp_path, arguments=("--port", str(port))) as second:
                await browser.shows("There is no player")
                await other.get_by_text("Nothing plays yet").wait_for()
                await create(second, "lobby", "two.flac")
                await browser.hears(400)
                await other.get_by_role("link", name="lobby").wait_for()
                await browser.button("Pause").click()
                await until_state(second, "lobby", lambda now: now["paused"])


async def test_nodes_with_passwords_are_steered_and_heard_through_the_command(tmp_path: Path) -> None:
    async with dashboard_before_two(tmp_path) as command, browsing(f"{command.url}/?k={command.key}") as browser:
        await browser.button("New player").click()
        await browser.field("Name").fill("far")
        await browser.field("Address").fill("tone.wav")
        await browser.button("Create").click()
        await browser.hears(440)
        await browser.button("Pause").click()
        await browser.hears_nothing()
        assert "sesame" not in await browser.page.content()
        await browser.page.get_by_role("combobox", name="Node").select_option("1")
        await browser.shows("Nothing plays yet")
        await create(command.nodes[1], "hall", "tone.wav")
        await browser.page.get_by_role("link", name="hall").click()
        await browser.button("Pause").wait_for()
        assert "sesame" not in await browser.page.content()


@pytest.mark.parametrize("size", [(1280, 900), (1920, 1080), (390, 844)])
async def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    viewport = {"width": size[0], "height": size[1]}

    async with at_player(tmp_path, viewport=viewport) as (node, browser):

        async def is_well_made() -> None:
            for scheme in ("light", "dark"):
                await browser.page.emulate_media(color_scheme=scheme)
                assert await browser.violations() == []
            assert await browser.page.evaluate("document.documentElement.scrollWidth") == size[0]
            wide = "[...document.querySelectorAll('dialog')].filter((one) => one.scrollWidth > one.clientWidth).length"
            assert await browser.page.evaluate(wide) == 0

        await patch(node, "lobby", "filters", {"echo": {}})
        await patch(node, "lobby", "metadata", {"value": {"board": [{"uri": "horn.wav"}]}})
        await browser.button("Listen here").click()
        await browser.hears(1000)
        if size[0] > size[1]:  # the first card and the queue are there without scrolling
            box = await browser.page.get_by_role("listitem").filter(has_text="three").bounding_box()
            assert box["y"] + box["height"] < (await browser.bar.bounding_box())["y"]
        await browser.button("Remove three").click()
        await browser.page.get_by_role("button", name="Undo").wait_for()
        await browser.tab("Sound")
        await browser.button("Settings of Echo").click()
        await browser.button("Skip").click()
        await is_well_made()
        await browser.tab("Queue")
        await browser.page.get_by_role("list", name="History").wait_for()
        for tab in ("Queue", "Soundboard", "Details"):
            await browser.tab(tab)
            await is_well_made()
        await browser.tab("Queue")
        await browser.button("Browse").click()
        await browser.page.get_by_role("list", name="Files").get_by_role("button").click()
        await browser.page.get_by_role("checkbox", name="two.flac").check()
        await is_well_made()
        await browser.page.keyboard.press("Escape")
        await browser.page.goto(f"{node.url}/dashboard/#/0")
        await create(node, "broken", "nothing.mp3")
        await browser.shows("file_missing")
        await browser.page.get_by_role("checkbox", name="Choose broken").check()
        await is_well_made()
        await browser.button("New player").click()
        await browser.page.get_by_role("textbox", name="Name").fill("é")
        await is_well_made()


async def _is_at(node: RunningNode, seconds: int) -> bool:
    return bool(seconds * 1000 <= (await state(node, "lobby"))["position"] < seconds * 1000 + 4000)


async def _give(page: Any, way: str, files: dict[str, bytes]) -> None:
    """As if these files were dropped on the page, or pasted into it: `way` is `drop` or `paste`."""
    await page.evaluate(
        """([way, files]) => {
          const dataTransfer = new DataTransfer();
          for (const [name, text] of files) {
            const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
            dataTransfer.items.add(new File([bytes], name));
          }
          const settings = {dataTransfer, clipboardData: dataTransfer, bubbles: true, cancelable: true};
          const Given = way === "drop" ? DragEvent : ClipboardEvent;
          document.body.dispatchEvent(new Given(way, settings));
        }""",
        (way, [(name, b64encode(data).decode()) for name, data in files.items()]),
    )


async def _order_is(node: RunningNode, *uris: str) -> bool:
    return await waiting_uris(node, "lobby") == list(uris)


async def _are(rows: object, count: int) -> bool:
    return bool(await rows.count() == count)  # type: ignore[attr-defined]
