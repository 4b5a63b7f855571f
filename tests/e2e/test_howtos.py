"""What docs/soundboard.md, docs/files.md and docs/operating.md promise, done as their readers do it. Only ports and
folders are others.
"""

import base64
import re
from pathlib import Path

import yaml

from tests.support.audio_files import music, wav
from tests.support.missing_programs import needs
from tests.support.pasting import pasted, variables_in
from tests.support.readme import REPOSITORY, blocks
from tests.support.running_node import RunningNode, running_node

ADDRESS = "http://127.0.0.1:2333"
SOUNDBOARD = (REPOSITORY / "docs" / "soundboard.md").read_text(encoding="utf-8")
OPERATING = (REPOSITORY / "docs" / "operating.md").read_text(encoding="utf-8")
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
async def test_operating(tmp_path: Path) -> None:
    prometheus, grafana = map(yaml.safe_load, blocks("yaml", OPERATING))
    (job,) = prometheus["scrape_configs"]
    assert job["authorization"].keys() == {"credentials_file"}  # the type is Bearer, unless it is said
    alerts = (REPOSITORY / "docs" / "grafana" / "alerts.yml").read_text(encoding="utf-8")
    assert f'job="{job["job_name"]}"' in alerts
    infinity = grafana["datasources"][1]
    assert infinity["jsonData"]["allowedHosts"] == [ADDRESS]
    basic = base64.b64encode(f"{infinity['basicAuthUser']}:sesame".encode())
    (schemes,) = re.findall(r"`server\.(schemes = \[.*?\])`", OPERATING)
    config = f'[server]\npassword = "sesame"\nopen_paths = ["/readyz"]\n{schemes}\n'
    async with running_node(tmp_path, config) as node:
        for path, value in (("/metrics", b"Bearer sesame"), ("/v0/players", b"Basic " + basic)):
            assert (await node.request("GET", path, headers=(("Authorization", value),))).status == 200
        (rolling,) = blocks("sh", OPERATING)
        here = rolling.replace("radio1 radio2", "127.0.0.1 127.0.0.1").replace(":2333", f":{node.port}")
        assert await pasted(f"ssh() {{ true; }}\n{here}", tmp_path) == [200, 200]


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
