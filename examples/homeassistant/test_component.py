"""The component in Home Assistant's own harness, with a real node: `make test-homeassistant`."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import custom_components
import pytest
import yaml
from homeassistant.config_entries import ConfigEntryState
from homeassistant.core import HomeAssistant, State, callback
from homeassistant.exceptions import HomeAssistantError
from homeassistant.setup import async_setup_component
from pytest_homeassistant_custom_component.common import MockConfigEntry, async_mock_service

from tonearm.client import Node, OverlayEnd, OverlayStart, TrackEnd

REPOSITORY = Path(__file__).parents[2]
BIN = Path(os.environ["TONEARM_BIN"])  # of the node's own Python
KITCHEN = "media_player.tonearm_kitchen"

MAKE_FILES = """
from pathlib import Path
from tests.support.audio_files import music, wav
from tests.support.pictures import flac_with, png
Path("music/Album").mkdir(parents=True)
Path("music/song.flac").write_bytes(flac_with(music(60.0), png()))
Path("music/Album/1.wav").write_bytes(wav(music(20.0)))
Path("music/Album/2.wav").write_bytes(wav(music(20.0)))
Path("bell.wav").write_bytes(wav(music(0.5)))
Path("picture.png").write_bytes(png())
"""


class RunningNode:
    """The real command on a free port, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.start("sesame")

    def start(self, password: str) -> None:
        """On the port that it had before, if any."""
        config = self.folder / "tonearm.toml"
        config.write_text(
            f'[server]\npassword = "{password}"\nport = {self.port}\n'
            f'[state]\npath = "state.sqlite"\n[library]\nfolders = ["{self.folder / "music"}"]\n'
        )
        command = [str(BIN / "tonearm"), "serve", "--config", str(config)]
        self._process = subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if found := re.search(r"listens on http://\S+:(\d+)", line):
                self.port = int(found[1])
                return
        raise AssertionError("the node did not start")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("node")
    make = [str(BIN / "python"), "-c", MAKE_FILES]
    subprocess.run(make, cwd=folder, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, check=True)
    node = RunningNode(folder)
    yield node
    node.stop()


@pytest.fixture(autouse=True)
def _ours(monkeypatch: pytest.MonkeyPatch, socket_enabled: None, enable_custom_integrations: None) -> None:
    """Sockets to 127.0.0.1, and this component in place of the harness's own."""
    monkeypatch.setattr(custom_components, "__path__", [str(Path(__file__).with_name("custom_components"))])


@pytest.fixture
def expected_lingering_timers() -> bool:
    """aiohttp sets the timer of a socket's heartbeat anew when the node's goodbye comes; it does nothing then."""
    return True


@pytest.fixture
async def node(running: RunningNode, socket_enabled: None) -> AsyncIterator[Node]:
    """A client beside Home Assistant's, on a node without players."""
    async with Node(running.url, password="sesame") as client:
        for player in await client.players():
            await player.delete()
        yield client


@pytest.fixture
async def entry(hass: HomeAssistant, node: Node, running: RunningNode) -> AsyncIterator[MockConfigEntry]:
    """The node in Home Assistant, with the player `kitchen`."""
    hass.config.media_dirs = {"local": str(running.folder)}
    await node.create_player("kitchen")
    entry = MockConfigEntry(domain="tonearm", title="home", data={"url": node.url, "password": "sesame"})
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await shown(hass, lambda state: state.state == "idle")
    yield entry
    if entry.state is ConfigEntryState.LOADED:
        assert await hass.config_entries.async_unload(entry.entry_id)


async def shown(hass: HomeAssistant, check: Callable[[State], bool], entity: str = KITCHEN) -> State:
    """The entity's state, once it is so."""
    came = asyncio.Event()
    off = hass.bus.async_listen("state_changed", callback(lambda _: came.set()))
    try:
        async with asyncio.timeout(20):
            while True:
                state = hass.states.get(entity)
                if state is not None and check(state):
                    return state
                await came.wait()
                came.clear()
    except TimeoutError:
        raise AssertionError(f"{entity} stayed {hass.states.get(entity)}") from None
    finally:
        off()


async def do(hass: HomeAssistant, verb: str, **data: Any) -> None:
    """An action of Home Assistant, as an automation calls it."""
    await hass.services.async_call("media_player", verb, {"entity_id": KITCHEN, **data}, blocking=True)


async def play(hass: HomeAssistant, uri: str, **data: Any) -> None:
    await do(hass, "play_media", media_content_id=uri, media_content_type="music", **data)


async def test_what_home_assistant_shows_and_does(
    hass: HomeAssistant, node: Node, running: RunningNode, entry: MockConfigEntry, hass_client: Any
) -> None:
    await play(hass, "music/song.flac")
    state = await shown(hass, lambda state: state.state == "playing" and "entity_picture" in state.attributes)
    assert state.attributes["media_title"] == "song"
    assert state.attributes["media_duration"] == 60
    assert state.attributes["media_content_id"] == "music/song.flac"
    answer = await (await hass_client()).get(state.attributes["entity_picture"])
    assert await answer.read() == (running.folder / "picture.png").read_bytes()

    await do(hass, "media_pause")
    await shown(hass, lambda state: state.state == "paused")
    await do(hass, "media_seek", seek_position=30)
    await shown(hass, lambda state: state.attributes["media_position"] == 30)
    await do(hass, "volume_set", volume_level=0.5)
    await shown(hass, lambda state: state.attributes["volume_level"] == 0.5)
    await do(hass, "volume_up")
    await shown(hass, lambda state: state.attributes["volume_level"] == 0.6)
    for repeat in ("one", "all", "off"):
        await do(hass, "repeat_set", repeat=repeat)
        await shown(hass, lambda state, repeat=repeat: state.attributes["repeat"] == repeat)
    await do(hass, "media_play")
    await shown(hass, lambda state: state.state == "playing")

    player = await node.player("kitchen").refresh()
    waiting = ("music/Album/1.wav", "music/Album/2.wav", "bell.wav")
    await play(hass, waiting[1], enqueue="add")
    await play(hass, waiting[0], enqueue="next")
    await play(hass, waiting[2], enqueue="add")
    assert [track.uri for track in await player.queue.list()] == list(waiting)
    for _ in range(50):
        await do(hass, "shuffle_set", shuffle=True)
        if [track.uri for track in await player.queue.list()] != list(waiting):
            break
    else:
        raise AssertionError("nothing was shuffled")
    await do(hass, "media_next_track")
    await shown(hass, lambda state: state.attributes.get("media_title") != "song")
    await do(hass, "media_previous_track")
    await shown(hass, lambda state: state.attributes.get("media_title") == "song")
    await play(hass, "music/Album/1.wav", enqueue="play")
    state = await shown(hass, lambda state: state.attributes.get("media_title") == "1" and state.state == "playing")
    assert "entity_picture" not in state.attributes
    assert await player.queue.list() != []
    await do(hass, "clear_playlist")
    assert await player.queue.list() == []
    await play(hass, waiting[1], enqueue="add")
    with pytest.raises(HomeAssistantError, match="ftp"):
        await play(hass, "ftp://nas.example/song.flac")
    assert [track.uri for track in await player.queue.list()] == [waiting[1]]  # A refusal changes nothing.
    await do(hass, "media_pause")
    await shown(hass, lambda state: state.state == "paused")
    await play(hass, "music/song.flac", enqueue="replace")
    await shown(hass, lambda state: state.attributes.get("media_title") == "song" and state.state == "playing")
    assert await player.queue.list() == []
    await do(hass, "media_stop")
    await shown(hass, lambda state: state.state == "idle")
    with pytest.raises(HomeAssistantError, match="volume"):
        await play(hass, "bell.wav", extra={"volume": 99}, announce=True)


@pytest.mark.parametrize("uri", ["music/song.flac", "media-source://media_source/local/music/song.flac"])
async def test_an_announcement_is_heard_over_the_music_which_goes_on(
    hass: HomeAssistant, node: Node, running: RunningNode, entry: MockConfigEntry, hass_client: Any, uri: str
) -> None:
    """Also one of Home Assistant's, which the node fetches there, as it does what a voice says."""
    hass.config.internal_url = str((await hass_client()).make_url("")).rstrip("/")
    await play(hass, "music/Album/1.wav")
    await shown(hass, lambda state: state.state == "playing")
    player = await node.player("kitchen").refresh()
    events = player.events(OverlayStart, OverlayEnd, TrackEnd)
    told = asyncio.create_task(anext(events))
    await play(hass, uri, announce=True, extra={"volume": 0.8})
    assert isinstance(await told, OverlayStart)
    (overlay,) = (await node.request("GET", "/v0/players/kitchen"))["overlays"]
    assert "music/song.flac" in overlay["uri"]
    assert (overlay["duckDb"], overlay["volume"]) == (-18.0, 0.8)
    await player.stop_overlay(overlay["overlayId"])
    assert isinstance(await anext(events), OverlayEnd)
    await events.aclose()
    state = hass.states.get(KITCHEN)
    assert state is not None
    assert (state.state, state.attributes["media_title"]) == ("playing", "1")


async def test_the_automations_of_the_document_run(hass: HomeAssistant, node: Node, entry: MockConfigEntry) -> None:
    text = (REPOSITORY / "docs" / "homeassistant.md").read_text(encoding="utf-8")
    automations = [
        yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ]
    automations[1]["actions"][0]["data"]["media_content_id"] = "music/song.flac"
    spoken = async_mock_service(hass, "tts", "speak")
    for sensor, before in (("washing_machine", "on"), ("doorbell", "off")):
        hass.states.async_set(f"binary_sensor.{sensor}", before)
    assert await async_setup_component(hass, "automation", {"automation": automations})
    player = await node.player("kitchen").refresh()
    events = player.events(OverlayStart)
    told = asyncio.create_task(anext(events))
    hass.states.async_set("binary_sensor.washing_machine", "off")
    hass.states.async_set("binary_sensor.doorbell", "on")
    await told
    await events.aclose()
    (overlay,) = (await node.request("GET", "/v0/players/kitchen"))["overlays"]
    assert (overlay["duckDb"], overlay["volume"]) == (-30.0, 0.8)
    await hass.async_block_till_done()
    assert [call.data["media_player_entity_id"] for call in spoken] == [KITCHEN]


async def test_the_library_is_browsed_and_a_folder_played(
    hass: HomeAssistant, node: Node, entry: MockConfigEntry, hass_ws_client: Any
) -> None:
    socket = await hass_ws_client(hass)

    async def browse(**what: str) -> dict[str, Any]:
        await socket.send_json_auto_id({"type": "media_player/browse_media", "entity_id": KITCHEN, **what})
        answer = await socket.receive_json()
        assert answer["success"], answer
        result: dict[str, Any] = answer["result"]
        return result

    def ids(item: dict[str, Any]) -> dict[str, str]:
        return {name: item[name] for name in ("media_content_id", "media_content_type")}

    root = await browse()
    (music,) = (child for child in root["children"] if child["media_content_type"] == "tonearm_folder")
    assert any(child["media_content_id"].startswith("media-source://") for child in root["children"])
    listed = await browse(**ids(music))
    assert [(child["title"], child["can_expand"]) for child in listed["children"]] == [
        ("Album", True),
        ("song.flac", False),
    ]
    with pytest.raises(HomeAssistantError, match="no folder of the node"):
        await do(hass, "play_media", media_content_id="{}", media_content_type="tonearm_folder")
    for _ in range(2):
        await play(hass, "music/song.flac", enqueue="add")
    await do(hass, "play_media", **ids(listed["children"][0]))
    await shown(hass, lambda state: state.attributes.get("media_title") == "1")
    assert [track.title for track in await node.player("kitchen").queue.list(wait_ms=5000)] == ["2"]


async def test_players_come_go_and_outlive_the_node(
    hass: HomeAssistant, node: Node, running: RunningNode, entry: MockConfigEntry
) -> None:
    attic = "media_player.tonearm_attic"
    player = await node.create_player("attic", "music/song.flac", paused=True, volume=0.25)
    state = await shown(hass, lambda state: state.state == "paused", attic)
    assert (state.attributes["volume_level"], state.attributes["media_title"]) == (0.25, "song")
    await player.delete()
    await shown(hass, lambda state: state.state == "unavailable", attic)
    await node.create_player("attic")
    await shown(hass, lambda state: state.state == "idle", attic)

    await node.player("kitchen").set_volume(0.75)
    await asyncio.to_thread(running.stop)
    await shown(hass, lambda state: state.state == "unavailable")
    await asyncio.to_thread(running.start, "sesame")
    state = await shown(hass, lambda state: state.state == "idle")
    assert state.attributes["volume_level"] == 0.75

    await asyncio.to_thread(running.stop)
    await asyncio.to_thread(running.start, "other")
    while not (flows := hass.config_entries.flow.async_progress()):  # noqa: ASYNC110 - nothing tells of one
        await asyncio.sleep(0.05)
    assert await configured(hass, flows[0], password="wrong") == {"base": "invalid_auth"}
    assert await configured(hass, flows[0], password="other") == "reauth_successful"
    await shown(hass, lambda state: state.state == "idle")
    await asyncio.to_thread(running.stop)
    await asyncio.to_thread(running.start, "sesame")


async def configured(hass: HomeAssistant, flow: Any, **given: str) -> Any:
    """The form's errors, or how the flow ended."""
    result = await hass.config_entries.flow.async_configure(flow["flow_id"], given)
    return result.get("errors") or result.get("reason") or result["type"]


def test_the_client_is_found_as_soon_as_it_is_installed(tmp_path: Path) -> None:
    """In a folder whose .pth files nobody reads, as they are not read by a Python that runs already."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path)]
    subprocess.run([*install, str(REPOSITORY / "client")], check=True)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parent)])
    program = "import custom_components.tonearm as it; print(it.Node.__module__)"
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert found.stdout == "tonearm.client.node\n"


async def test_a_node_is_set_up_by_its_address(hass: HomeAssistant, node: Node) -> None:
    flow = await hass.config_entries.flow.async_init("tonearm", context={"source": "user"})
    assert await configured(hass, flow, url="http://127.0.0.1:1") == {"base": "cannot_connect"}
    assert await configured(hass, flow, url=node.url) == {"base": "invalid_auth"}
    assert await configured(hass, flow, url=f"{node.url}/", password="sesame") == "create_entry"
    await hass.async_block_till_done()
    (entry,) = hass.config_entries.async_entries("tonearm")
    assert (entry.title, entry.state) == (node.url.removeprefix("http://"), ConfigEntryState.LOADED)
    flow = await hass.config_entries.flow.async_init("tonearm", context={"source": "user"})
    assert await configured(hass, flow, url=node.url) == "already_configured"
    assert await hass.config_entries.async_unload(entry.entry_id)
