"""Servers that fail and files made to do harm: each is told in full, and the next track plays."""

import asyncio
import gzip
import struct
import time
from pathlib import Path
from typing import Final

import pytest

from tests.support.audio_files import encoded, flac, m4a, mp3, music, pcm_of, synchsafe, tone, video_without_sound, wav
from tests.support.certificate import unsigned_certificate
from tests.support.e2e_players import IMPATIENT, PATIENT, create, hear_to_end, until_state
from tests.support.media_server import (
    Answer,
    MediaServer,
    Reply,
    Request,
    drip,
    media,
    raw,
    redirect,
    reset,
    stall,
    status,
)
from tests.support.processes import WaitForCpu
from tests.support.running_node import RunningNode, running_node

SOUND: Final = music(0.2)
SONG: Final = wav(SOUND)
LONG: Final = music(1.5, seed=9)
LONG_SONG: Final = wav(LONG)

# An opening may take 15 s, a stall much less; what takes longer than this hangs.
NEVER_LONGER_S: Final = 45.0
MIB: Final = 1024 * 1024
PACKED_ZEROS: Final = gzip.compress(bytes(20 * MIB), compresslevel=1)  # every test process makes it


def plain(head: str, body: bytes = b"") -> Answer:
    return raw(f"HTTP/1.1 {head}\r\n\r\n".encode() + body)


def endless(head: bytes, block: bytes) -> Answer:
    """`head`, then `block` again and again, 64 MiB of it."""

    async def answer(_: Request, reply: Reply) -> None:
        await reply.send(head)
        while reply.sent_bytes < 64 * MIB:
            await reply.send(block)
        reply.cut()

    return answer


def ok(*lines: str) -> bytes:
    return "\r\n".join(("HTTP/1.1 200 OK", "Content-Type: audio/mpeg", *lines, "", "")).encode()


# What a server does: code and stage that are told. Nothing of it gives sound. More: tests/sources.
FAULTS: Final[dict[str, tuple[Answer, set[str]]]] = {
    "stall before the header": (stall(), {"timeout connect"}),
    "stall in the body, chunked": (media(LONG_SONG, ranges=False, chunked=True, stall_after=30), {"timeout read"}),
    "reset": (reset(), {"connection_lost connect", "connect_failed connect"}),
    "half a header": (raw(b"HTTP/1.1 200 OK\r\nContent-Ty"), {"connection_lost connect", "connect_failed connect"}),
    "nothing": (media(b""), {"empty read", "empty connect", "empty decode"}),
    "no such file": (status(404), {"http_status connect"}),
    "redirect to nonsense": (redirect("http://[::1"), {"source_refused connect"}),
    "a page": (media(b"<!doctype html><title>x</title>" * 9, content_type="audio/mpeg"), {"not_audio decode"}),
    "packed": (plain("200 OK\r\nContent-Encoding: gzip", PACKED_ZEROS), {"limit_exceeded read"}),
    "a radio station of noise": (
        endless(b"ICY 200 OK\r\nicy-name: x\r\nicy-metaint: 16000\r\n\r\n", b"\xff" * 65536),
        {"limit_exceeded decode", "not_audio decode"},
    ),
    "an endless playlist": (
        endless(ok().replace(b"audio/mpeg", b"audio/x-mpegurl"), b"#EXTM3U\n" * 8192),
        {"limit_exceeded read", "empty read", "limit_exceeded connect", "not_audio decode"},
    ),
}


async def test_each_fault_is_told_and_the_next_track_plays(tmp_path: Path) -> None:
    (tmp_path / "folder.mp3").mkdir()
    (tmp_path / "silent film.mp4").write_bytes(video_without_sound())
    # The stall is so long that a flood on a loaded machine is none.
    times = "connect_timeout_s = 2\nheaders_timeout_s = 2\nstall_timeout_s = 8\n"
    config = f"{PATIENT}[sources]\nprivate_networks = true\n{times}"
    async with (
        MediaServer() as server,
        MediaServer(tls=unsigned_certificate(tmp_path)) as tls_server,
        running_node(tmp_path, config) as node,
    ):
        song = server.serve("/song.wav", media(SONG))
        uris = {name: server.serve(f"/{name.replace(' ', '-')}", answer) for name, (answer, _) in FAULTS.items()}
        wanted = {name: codes for name, (_, codes) in FAULTS.items()} | {
            "missing.mp3": {"file_missing connect"},
            "folder.mp3": {"file_unreadable connect"},
            "silent film.mp4": {"no_audio_stream decode"},
            "http://no-such-host.invalid/x.mp3": {"name_not_found connect"},
            tls_server.url("/x.mp3"): {"tls connect"},
        }
        begun_ms = time.time() * 1000
        wait = WaitForCpu(node.pid, *node.decoder_pids())
        all_heard = await asyncio.gather(
            *(hear_to_end(node, f"p{number}", uris.get(name, name), song) for number, name in enumerate(wanted))
        )
        limit_ms = (NEVER_LONGER_S + wait.seconds(node.pid, *node.decoder_pids())) * 1000
        for (name, codes), heard in zip(wanted.items(), all_heard, strict=True):
            told = (event for event in heard.events if event["op"].startswith("Track") and event["op"] != "TrackStuck")
            exception, *rest = told  # one that takes long is stuck before
            error = exception["error"]
            assert f"{error['code']} {error['stage']}" in codes, (name, error)
            assert set(error) - {"httpStatus"} == {"code", "stage", "message", "hint"}
            assert error.get("httpStatus") == (404 if error["code"] == "http_status" else None), name
            assert exception["time"] - begun_ms < limit_ms, name
            for text in (error["message"], error["hint"]):
                assert text.isprintable(), (name, text)
                assert text.endswith("."), (name, text)
                assert 10 < len(text) < 400, (name, text)
            assert [event["op"] for event in rest] == ["TrackEnd", "TrackStart", "TrackEnd"], name
            assert rest[0]["reason"] == "loadFailed"
            assert heard.pcm == pcm_of(SOUND), name
        answer = await node.request("GET", f"/v0/loadtracks?identifier={uris['an endless playlist']}")
        assert answer.json() == {"loadType": "empty", "data": {}}


async def test_what_is_interrupted_is_heard_so_far_and_the_next_track_plays(node: RunningNode) -> None:
    async with MediaServer() as server:
        cut = server.serve("/cut.wav", media(LONG_SONG, ranges=False, cut_after=150_000))
        heard = await hear_to_end(node, "p", cut, server.serve("/song.wav", media(SONG)))
    told = [event for event in heard.events if event["op"].startswith("Track")]
    assert [event["op"] for event in told] == [
        *("TrackStart", "TrackException", "TrackEnd"),
        *("TrackStart", "TrackEnd"),
    ]
    assert (told[1]["error"]["code"], told[1]["error"]["stage"]) == ("connection_lost", "read")
    broken_off_at = heard.pcm.find(pcm_of(SOUND))
    assert broken_off_at >= 100_000
    assert pcm_of(LONG).startswith(heard.pcm[:broken_off_at].rstrip(b"\0"))


@pytest.mark.timing
async def test_servers_get_as_much_time_as_the_configuration_gives_them(tmp_path: Path) -> None:
    times = "connect_timeout_s = 1\nheaders_timeout_s = 1\nstall_timeout_s = 2\nstart_timeout_s = 4\n"
    song = wav(tone(440, 20.0))
    async with MediaServer() as server, running_node(tmp_path, f"{IMPATIENT}[sources]\n{times}") as node:
        begun_s = time.monotonic()
        for key, answer in (
            ("headers_timeout_s", stall()),
            ("stall_timeout_s", media(song, stall_after=300_000, ranges=False)),
            ("start_timeout_s", drip(song, 0.1, head=b"HTTP/1.1 200 OK\r\n\r\n")),
        ):
            await create(node, key, server.serve(f"/{key}.wav", answer))
        for key in ("headers_timeout_s", "stall_timeout_s", "start_timeout_s"):
            error = (await until_state(node, key, lambda now: now["error"] is not None))["error"]
            assert error["code"] == "timeout"
            assert f"sources.{key}" in error["hint"]
        # Before the times that hold by default: 10, 10 and 30 s.
        assert time.monotonic() - begun_s < 10


def hostile_files() -> dict[str, bytes]:
    """Small files that ask for a lot."""
    index = bytearray(m4a(tone(440, 0.02)))
    struct.pack_into(">II", index, index.find(b"stsz") + 8, 1, 80_000_000)
    struct.pack_into(">III", index, index.find(b"stsc") + 8, 1, 1, 80_000_000)
    picture = struct.pack(">II", 3, 9) + b"image/png" + bytes(16) + struct.pack(">II", 0, 0x7FFF_FFFF)
    blocks = struct.pack("<HHIIHH", 1, 65535, 2**31, 2**31, 65535, 65535)
    opus_head = b"OpusHead\x01\xff" + struct.pack("<HIH", 0, 48_000, 0) + b"\x01\xff\xff" + bytes(255)
    return {
        "index of gigabytes.mp4": bytes(index),
        "absurd picture.flac": flac(SOUND)[:42] + b"\x86\xff\xff\xff" + picture,
        "absurd blocks.wav": wav(SOUND)[:20] + blocks + bytes(999),
        "absurd channels.opus": encoded("ogg", "libopus", SOUND)[:28] + opus_head,
        "absurd sizes.mkv": b"\x1a\x45\xdf\xa3\x01\xff\xff\xff\xff\xff\xff\xfe" + b"\x01" * 5000,
        "many chunks.aiff": b"FORM\x7f\xff\xff\xffAIFF" + b"COMM\x00\x00\x00\x00" * 50_000,
    }


async def test_hostile_files_end_in_an_error_and_take_no_memory(tmp_path: Path) -> None:
    files = hostile_files()
    names = list(files)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "song.wav").write_bytes(SONG)
    (tmp_path / "tone.mp3").write_bytes(mp3(tone(440, 0.2)))
    async with (
        MediaServer() as server,
        running_node(tmp_path, PATIENT + "tags_ahead = 0\n[decoder]\nprocesses = 1\n") as node,
    ):
        tag = endless(ok(), b"ID3\x04\x00\x00" + synchsafe(2**28 - 1) + bytes(65536))
        names += [server.serve("/tag.mp3", tag), server.serve("/zeros.mp3", endless(ok(), bytes(65536)))]
        await hear_to_end(node, "before", "tone.mp3", "song.wav")
        decoders = await node.decoders_ready(2)  # The one in use, which is the larger one now, and the spare.
        decoder = max(decoders, key=peak_kib)
        baseline_kib = peak_kib(decoder)
        for number, name in enumerate(names):
            heard = await hear_to_end(node, f"p{number}", name, "song.wav")
            (code,) = heard.codes
            assert code != "decoder_died", name
            assert heard.pcm == pcm_of(SOUND), name
            assert peak_kib(decoder) - baseline_kib < 100 * 1024, (name, peak_kib(decoder), baseline_kib)
        assert node.decoder_pids() == decoders


def peak_kib(pid: int) -> int:
    """The most memory a process has had resident since it began."""
    status_text = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status_text.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])
