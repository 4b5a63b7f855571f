"""What docs/soundboard.md, files.md, announce.md and operating.md promise, done as their readers do it. Only ports and
folders are others.
"""

import base64
import re
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from tests.support.audio_files import tone, wav
from tests.support.e2e_players import PATIENT, enqueue, state
from tests.support.e2e_sockets import following, listening
from tests.support.missing_programs import needs
from tests.support.pasting import pasted
from tests.support.readme import REPOSITORY, blocks
from tests.support.running_node import RunningNode, running_node
from tonearm.cli import tonearm

ADDRESS = "http://127.0.0.1:2333"
SOUNDBOARD = (REPOSITORY / "docs" / "soundboard.md").read_text(encoding="utf-8")
ANNOUNCE = (REPOSITORY / "docs" / "announce.md").read_text(encoding="utf-8")
OPERATING = (REPOSITORY / "docs" / "operating.md").read_text(encoding="utf-8")
FILES = (REPOSITORY / "docs" / "files.md").read_text(encoding="utf-8")


async def paste(text: str, document: str, node: RunningNode, music_folder: Path) -> list[int]:
    here = {ADDRESS: node.url, "/srv/music": str(music_folder)}
    return (await pasted(text, node.folder, here=here, before=blocks("sh", document)))[0]


@needs("curl")
async def test_the_soundboard(tmp_path: Path) -> None:
    for name in ("sounds/horn.wav", "sounds/drum.wav", "music/song.flac"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(wav(tone(440, 3.0)))
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
async def test_announcements(tmp_path: Path) -> None:
    """By a voice program that says always the same."""
    programs = tmp_path / "programs"
    programs.mkdir()
    # As into any pipe: it does not know yet how long it will speak, and says half a day.
    (programs / "voice.wav").write_bytes(wav(tone(440, 1.0, 22_050, channels=1), 22_050, data_bytes=0x7FFFF000))
    (programs / "espeak-ng").write_text(f'#!/bin/sh\n[ "$1" = --stdout ] && exec cat {programs}/voice.wav\n')
    (programs / "espeak-ng").chmod(0o755)
    (tmp_path / "song.wav").write_bytes(wav(tone(440, 60.0)))
    (tmp_path / "bell.wav").write_bytes(wav(tone(440, 0.6)))
    sentence, say, room = blocks("sh", ANNOUNCE)
    (tmp_path / "say").write_text(say, encoding="utf-8")
    async with running_node(tmp_path, PATIENT) as node:
        setting = f"PATH={programs}:$PATH; export TONEARM_URL={node.url}\n"

        async def run(script: str) -> None:
            await pasted(setting + script, tmp_path, here={ADDRESS: node.url})

        await run(room)
        assert (await state(node, "kitchen"))["state"] == "idle"
        async with following(node, "kitchen") as tape, listening(node, "kitchen") as ear:
            await run(sentence)  # in a room where nothing plays
            await tape.until("OverlayStart")
            await ear.frames_heard(10)
            assert any(ear.pcm)
            assert (await tape.until("OverlayEnd"))["reason"] == "finished"
            await enqueue(node, "kitchen", "song.wav")
            await tape.until("TrackStart")
            await run('sh say kitchen bell.wav "Dinner is ready"')
            ends = [await tape.until("OverlayEnd") for _ in ("bell", "sentence")]
            assert [end["reason"] for end in ends] == ["finished", "finished"]
            assert [event["op"] for event in tape.events].count("OverlayStart") == 3
            assert (await state(node, "kitchen"))["state"] == "playing"


@needs("systemd-analyze")
def test_systemd_takes_the_unit_of_a_loudspeaker_which_runs_a_command_that_there_is(tmp_path: Path) -> None:
    (unit,) = blocks("ini", ANNOUNCE)
    (command,) = re.findall(r"^ExecStart=\S+/tonearm (.*)$", unit, re.MULTILINE)
    name, *arguments = shlex.split(command)
    tonearm.commands[name].make_context(name, arguments)
    (file := tmp_path / "kitchen.service").write_text(unit.replace("/opt/tonearm/bin/tonearm", sys.executable))
    checked = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
    assert not [line for line in checked.stderr.splitlines() if "kitchen.service" in line]


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
        here = {"radio1 radio2": "127.0.0.1 127.0.0.1", ":2333": f":{node.port}"}
        assert (await pasted(f"ssh() {{ true; }}\n{rolling}", tmp_path, here=here))[0] == [200, 200]


@needs("curl")
async def test_files_and_private_networks(tmp_path: Path) -> None:
    folder = tmp_path / "srv" / "music"
    for name in ("song.flac", "Best of/one.wav"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(wav(tone(440, 1.0)))
    everybody, home = blocks("toml", FILES)
    allowed, refused = blocks("sh", FILES)
    async with running_node(tmp_path, everybody.replace("/srv/music", str(folder))) as node:
        assert await paste(allowed, FILES, node, folder) == [201, 201]
        assert await paste(refused, FILES, node, folder) == [403, 403, 403]
    async with running_node(tmp_path, home) as node:
        for host, status in (("nas.lan", 201), ("192.168.1.7", 403)):
            body = {"id": host, "uri": f"http://{host}/song.mp3"}
            assert (await node.request("POST", "/v0/players", body)).status == status
