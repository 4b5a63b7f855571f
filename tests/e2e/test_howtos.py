"""What docs/soundboard.md and docs/files.md promise, done as their readers do it. Only ports and folders are others."""

from pathlib import Path

from tests.support.audio_files import music, wav
from tests.support.missing_programs import needs
from tests.support.pasting import pasted, variables_in
from tests.support.readme import REPOSITORY, blocks
from tests.support.running_node import RunningNode, running_node

ADDRESS = "http://127.0.0.1:2333"
SOUNDBOARD = (REPOSITORY / "docs" / "soundboard.md").read_text(encoding="utf-8")
FILES = (REPOSITORY / "docs" / "files.md").read_text(encoding="utf-8")


async def paste(text: str, document: str, node: RunningNode, music_folder: Path) -> list[int]:
    script = variables_in(*blocks("sh", document)) + text
    return await pasted(script.replace(ADDRESS, node.url).replace("/srv/music", str(music_folder)), node.folder)


@needs("curl")
async def test_the_soundboard(tmp_path: Path) -> None:
    for name in ("sounds/horn.wav", "sounds/drum.wav", "music/song.flac"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(wav(music(3.0)))
    first, together, over_music = blocks("sh", SOUNDBOARD)
    (config,) = blocks("toml", SOUNDBOARD)
    async with running_node(tmp_path, config) as node:
        assert await paste(first, SOUNDBOARD, node, tmp_path) == [201, 201]
        assert await paste(together, SOUNDBOARD, node, tmp_path) == [201]
        assert await paste(over_music, SOUNDBOARD, node, tmp_path) == [201, 201]
        state = (await node.request("GET", "/v0/players/board")).json()
        assert state["track"]["info"]["title"] == "song"
        assert [(overlay["uri"], overlay["duckDb"]) for overlay in state["overlays"]][-1] == ("sounds/horn.wav", -18)
        for origin, status in (("http://localhost:8000", 200), ("http://localhost:8001", 403)):
            answer = await node.request("GET", "/v0/players", headers=(("Origin", origin),))
            assert answer.status == status


@needs("curl")
async def test_files_and_private_networks(tmp_path: Path) -> None:
    folder = tmp_path / "srv" / "music"
    for name in ("song.flac", "Best of/one.wav"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(wav(music(1.0)))
    everybody, home = blocks("toml", FILES)
    allowed, refused = blocks("sh", FILES)
    async with running_node(tmp_path, everybody.replace("/srv/music", str(folder))) as node:
        assert await paste(allowed, FILES, node, folder) == [201, 201]
        assert await paste(refused, FILES, node, folder) == [403, 403, 403]
    async with running_node(tmp_path, home) as node:
        for host, status in (("nas.lan", 201), ("192.168.1.7", 403)):
            body = {"id": host, "uri": f"http://{host}/song.mp3"}
            assert (await node.request("POST", "/v0/players", body)).status == status
