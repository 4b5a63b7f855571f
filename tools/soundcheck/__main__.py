"""Runs the sound check: starts a node and five listeners, plays the programme, and prints the findings."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

from tools.own_node import start_node
from tools.soundcheck import examine
from tools.soundcheck.examine import Finding
from tools.soundcheck.programme import PARTS, Player
from tools.soundcheck.recording import Recording, record_events, record_socket, record_stream

LOUD_PARTS = {"effects", "crossfade", "overlays"}
"""Parts whose sound may jump more than the clips do: filters lift it, or several sounds are added."""

MOST_WAIT_MS = 80.0
"""Frames come in twos, 40 ms apart; a wait over this is told."""


async def perform(clips: list[str], folder: Path, only: list[str]) -> list[Finding]:
    process, address = await start_node(folder, "[player]\nfirst_listener_wait_ms = 3000\n")
    pcm, opus, other = Recording("pcm"), Recording("opus"), Recording("opus at 64 kbit/s")
    ogg, mp3 = Recording("stream.ogg"), Recording("stream.mp3")
    parts: list[tuple[float, str]] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        base = f"{address}/v0/players"
        player = Player(http, f"{base}/check")
        async with http.post(base, json={"id": "check", "uri": clips[0]}) as reply:
            reply.raise_for_status()
        listeners = [
            asyncio.create_task(record_events(http, f"{player.base}/events?since=0", player.events)),
            asyncio.create_task(record_socket(http, f"{player.base}/ws?header=1", pcm)),
            asyncio.create_task(record_socket(http, f"{player.base}/ws?format=opus&header=1", opus)),
            asyncio.create_task(record_socket(http, f"{player.base}/ws?format=opus&header=1&bitrate=64000", other)),
            asyncio.create_task(record_stream(http, f"{player.base}/stream.ogg", ogg)),
            asyncio.create_task(record_stream(http, f"{player.base}/stream.mp3", mp3)),
        ]
        await asyncio.sleep(2.0)
        for part in PARTS:
            name = part.__name__
            if only and name not in only:
                continue
            print(f"… {name}", file=sys.stderr, flush=True)
            parts.append((time.monotonic(), name))
            await part(player, clips)
        quality = (await player.state())["quality"]
        await player.call("DELETE", "")
        await asyncio.wait(listeners, timeout=5.0)
        for listener in listeners:
            listener.cancel()
        failures = [task.exception() for task in listeners if task.done() and not task.cancelled() and task.exception()]
    process.terminate()
    exit_code = await process.wait()
    log = (folder / "node.log").read_text()
    clean = max(float(examine.second_differences(examine.decoded(Path(clip).read_bytes())).max()) for clip in clips)
    return [
        *(Finding("listeners", f"{failure!r}", True) for failure in failures),
        *(Finding("programme", text, True) for text in player.wrong),
        Finding(
            "node",
            f"exit code {exit_code}, tracebacks in the log: {log.count('Traceback')}",
            bool(exit_code) or "Traceback" in log,
        ),
        Finding("node", f"quality at the end: {quality}", False),
        *examine.order(player.events),
        *examine.gaps(pcm.frames, player.events, parts, MOST_WAIT_MS),
        *examine.silence(pcm.frames, parts, 3),
        *examine.clicks(pcm.frames, player.marks, clean, parts, LOUD_PARTS),
        *examine.same_sound(pcm.frames, opus.frames, parts),
        *examine.same_sound(pcm.frames, other.frames, parts),
        *examine.carried("stream.ogg", ogg, "ogg", pcm.frames, parts),
        *examine.carried("stream.mp3", mp3, "mp3", pcm.frames, parts),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.soundcheck", description=__package__)
    parser.add_argument("clips", nargs="+", help="audio files; the last one is short and sounds over the others")
    parser.add_argument("--only", nargs="*", default=[], help="names of parts")
    parser.add_argument("--keep", type=Path, help="a folder that keeps the node's log")
    arguments = parser.parse_args()
    clips = [str(Path(clip).resolve()) for clip in arguments.clips]
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(exist_ok=True, parents=True)
        findings = asyncio.run(perform(clips, folder, arguments.only))
    for finding in findings:
        print(f"{'WRONG' if finding.wrong else 'ok   '} {finding.subject:12} {finding.text}")
    return int(any(finding.wrong for finding in findings))


if __name__ == "__main__":
    raise SystemExit(main())
