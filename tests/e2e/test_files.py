"""The library of a running node: what is shown of it, and what is sent into it."""

import asyncio
import os
import resource
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.audio_files import music, wav
from tests.support.e2e_players import IMPATIENT, create, refusal, until_state
from tests.support.eventually import eventually
from tests.support.http_client import Answer, connected, request
from tests.support.running_node import RunningNode, running_node
from tonearm.client import BadRequest, NotFound
from tonearm.client import Node as NodeClient

SONG = wav(music(0.5))
PROXIED = (("X-Forwarded-For", "203.0.113.7"),)
CHUNKED = (("Transfer-Encoding", "chunked"),)
NOT_FOUND = (404, "file_not_found")


async def ask(node: RunningNode, path: str, **more: object) -> Answer:
    text = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in {"path": path, **more}.items())
    return await node.request("GET", f"/v0/files?{text}")


async def files(node: RunningNode, path: str, **more: object) -> Any:
    answer = await ask(node, path, **more)
    assert answer.status == 200, answer.body
    return answer.json()


def names(found: Any) -> list[str]:
    return [entry["name"] for entry in found["entries"]]


async def send(node: RunningNode, name: str, body: bytes = SONG, **options: Any) -> Answer:
    return await request(node.port, "POST", f"/v0/files?name={quote(name, safe='')}", body=body, **options)


def uploading(folder: Path, more: str = "") -> str:
    return f'{IMPATIENT}[library]\nuploads = "{folder}/sent"\n{more}'


async def test_clients_choose_and_look_for_music_in_the_working_folder(node: RunningNode) -> None:
    for name in ("Song 10.wav", "song 2.wav", "Ünï <b>&amp;.wav", "list.m3u", "notes.txt", ".hidden.wav", "no ending"):
        (node.folder / name).write_bytes(SONG)
    for left_behind in (b"caf\xe9.wav", b"a\nb.wav", b"\x1b[31m.wav"):  # by older programs
        (node.folder / os.fsdecode(left_behind)).write_bytes(SONG)
    (node.folder / "Zoo").mkdir()
    (node.folder / "Zoo" / "a song.wav").write_bytes(b"")
    (node.folder / "Zoo" / "loop").symlink_to(node.folder)  # nothing is found twice
    whole = await files(node, "/")
    assert (whole["path"], whole["parent"], whole["total"]) == ("/", None, 1)
    (top,) = whole["entries"]
    assert (top["path"], top["uri"], top["kind"], top["bytes"]) == ("/0", str(node.folder), "folder", 0)
    found = await files(node, "/0", details="true")
    assert (found["path"], found["parent"], found["total"]) == ("/0", "/", 6)
    assert names(found) == ["Zoo", "café.wav", "list.m3u", "song 2.wav", "Song 10.wav", "Ünï <b>&amp;.wav"]
    modified_ms = (node.folder / "song 2.wav").stat().st_mtime_ns // 1_000_000
    assert found["entries"][1]["uri"].endswith("caf%E9.wav")
    await create(node, "p", found["entries"][1]["uri"])
    await until_state(node, "p", lambda now: now["track"]["info"]["length"] == 500)
    assert found["entries"][3] == {
        "name": "song 2.wav",
        "path": "/0/song 2.wav",
        "uri": str(node.folder / "song 2.wav"),
        "kind": "audio",
        "bytes": len(SONG),
        "modifiedAt": modified_ms,
        "title": "song 2",
        "author": "",
        "length": 500,
    }
    assert [entry["kind"] for entry in found["entries"]] == ["folder", "audio", "playlist", *["audio"] * 3]
    assert names(await files(node, "/0", offset=2, limit=2)) == ["list.m3u", "song 2.wav"]
    below = await files(node, "/0/Zoo/")
    assert (below["parent"], names(below)) == ("/0", ["loop", "a song.wav"])
    for query, path, expected in (
        ("SONG", "/", ["a song.wav", "song 2.wav", "Song 10.wav"]),
        ("\N{FULLWIDTH LATIN SMALL LETTER Z}oo song", "/0", ["a song.wav"]),
        ("no such word", "/0", []),
    ):
        assert sorted(names(await files(node, path, query=query))) == sorted(expected), query
    for wrong in ("offset=-1", "limit=0", "limit=1001", "limit=x", "details=yes", "path=/0&path=/0"):
        assert (await node.request("GET", f"/v0/files?{wrong}")).status == 400, wrong


async def test_nothing_outside_is_shown_or_found(node: RunningNode, tmp_path: Path) -> None:
    (tmp_path / "secret.wav").write_bytes(SONG)
    inside = node.folder / "in"
    (inside / ".git").mkdir(parents=True)
    (inside / "song.wav").write_bytes(SONG)
    (inside / ".git" / "hidden.wav").write_bytes(SONG)
    links: dict[str, str | Path] = {
        "out": tmp_path,
        "out.wav": tmp_path / "secret.wav",
        "etc": "/etc",
        "up": "../..",
        "loop.wav": "loop.wav",
        "none.wav": "no such file",
        "shown by a link": ".git",
        "again.wav": "song.wav",
    }
    for name, target in links.items():
        (inside / name).symlink_to(target)
    os.mkfifo(inside / "pipe.wav")
    assert names(await files(node, "/0/in")) == names(await files(node, "/0", query="wav")) == ["again.wav", "song.wav"]
    hidden = (
        "out",
        "up",
        "etc",
        "out/secret.wav",
        "song.wav",
        "song.wav/x",
        "shown by a link",
        ".git",
        "..",
        "a" * 300,
    )
    for path in (*(f"/0/in/{name}" for name in hidden), "/1", "/0/none", "/etc", str(node.folder), "/0/%2e%2e"):
        for more in ({}, {"query": "wav"}):
            assert refusal(await ask(node, path, **more)) == NOT_FOUND, (path, more)


async def test_folders_are_those_of_the_configuration_and_only_who_may_play_files_sees_them(tmp_path: Path) -> None:
    one, other, work = (tmp_path / name for name in ("one", "other", "work"))
    for folder in (one, other, work):
        folder.mkdir()
        (folder / f"{folder.name}.wav").write_bytes(SONG)
    (one / "link").symlink_to(other)
    async with running_node(work, f'[sources]\nfiles = ["{one}", "{other}"]\n') as node:
        assert [entry["path"] for entry in (await files(node, "/"))["entries"]] == ["/0", "/1"]
        assert names(await files(node, "/0")) == ["link", "one.wav"]  # from one folder of the library into another
        assert names(await files(node, "/0/link")) == ["other.wav"]
        # A list of folders is meant for everybody.
        assert (await node.request("GET", "/v0/files", headers=PROXIED)).status == 200
        assert refusal(await send(node, "a.wav")) == (403, "uploads_off")
    async with running_node(work, "[sources]\nfiles = false\n") as node:
        for answer in (await node.request("GET", "/v0/files"), await send(node, "a.wav")):
            assert refusal(answer) == (403, "source_refused")
    async with running_node(work, '[library]\nfolders = ["/"]\n') as node:
        assert not {"proc", "sys", "dev"} & set(names(await files(node, "/0", limit=1000)))
        for path in ("/0/proc", "/0/proc/self", "/0/dev", "/0/sys"):
            assert refusal(await ask(node, path)) == NOT_FOUND
        assert names(await files(node, f"/0{other}")) == ["other.wav"]


async def test_what_is_sent_is_there_and_plays(tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    async with running_node(tmp_path, uploading(tmp_path)) as node, NodeClient(node.url) as client:
        answers = await asyncio.gather(*(send(node, "../../My Song.wav") for _ in range(3)))
        kept = sorted(answer.json()["name"] for answer in answers)
        assert kept == ["My Song (2).wav", "My Song (3).wav", "My Song.wav"]
        for answer in answers:
            body = answer.json()
            assert (answer.status, body["uri"]) == (201, str(sent / body["name"]))
            assert (body["bytes"], body["title"], body["length"]) == (len(SONG), body["name"][:-4], 500)
            assert (sent / body["name"]).read_bytes() == SONG
        assert sorted(names(await files(node, "/0/sent"))) == kept
        await create(node, "p", answers[0].json()["uri"])
        await until_state(node, "p", lambda now: now["track"]["info"]["length"] == 500)
        for name, content, code in (
            ("song.txt", SONG, "bad_request"),
            ("../../x", SONG, "bad_request"),
            ("text.mp3", b"It was a dark and stormy night. " * 999, "load_failed"),
            ("empty.mp3", b"", "load_failed"),
            ("list.mp3", b"#EXTM3U\n/etc/passwd\n", "load_failed"),
            ("half.wav", SONG[:20], "load_failed"),
        ):
            assert refusal(await send(node, name, content)) == (400, code), name
        for method, target in (("GET", "/v0/files?path=/0/none"), ("POST", "/v0/files?name=a.wav")):
            answer = await request(node.port, method, target, headers=PROXIED, body=SONG)
            assert refusal(answer) == (403, "source_refused"), target
        # By the client, too.
        assert (await client.send_file(sent / kept[2], "in pieces.wav")).length == 500
        found = await client.files("/0", "pieces", details=True)
        assert [(entry.path, entry.title) for entry in found.entries] == [("/0/sent/in pieces.wav", "in pieces")]
        with pytest.raises(NotFound):
            await client.files("/0/none")
        with pytest.raises(BadRequest, match="audio"):
            await client.send_file(b"x", "a.txt")
        assert sorted(os.listdir(sent)) == [*kept, "in pieces.wav"]
        assert sorted(os.listdir(tmp_path)) == ["node-under-test.toml", "sent"]
        # Of the system's ways to say that there is no room this one needs no disk of its own.
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (len(SONG) // 2, resource.RLIM_INFINITY))
        assert refusal(await send(node, "a.wav")) == (507, "disk_full")
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert (await send(node, "a.wav")).json()["name"] == "a.wav"


async def test_half_a_file_leaves_nothing_and_files_have_limits(tmp_path: Path) -> None:
    sent, size = tmp_path / "sent", len(SONG)
    sent.mkdir()
    (sent / ".tonearm-left-behind.wav").touch()
    os.utime(sent / ".tonearm-left-behind.wav", (0, 0))  # of a node that was killed
    limits = f"upload_max_bytes = {size}\nuploads_max_bytes = {2 * size + 100}\n[server]\nrequest_timeout_s = 1\n"
    head = f"POST /v0/files?name=a.wav HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()
    async with running_node(tmp_path, uploading(tmp_path, limits)) as node:
        async with connected(node.port) as connection:
            connection.send(head + SONG[:5000])
            await eventually(lambda: len(os.listdir(sent)) == 1, "the file is being written")
            assert names(await files(node, "/0/sent")) == []
        await eventually(lambda: os.listdir(sent) == [], "what the lost client sent is gone")
        for begun, refused in (
            (head + SONG[:5000], (400, "bad_request")),  # no byte came for too long
            (head.replace(b"%d" % size, b"%d" % (size + 1)), (413, "body_too_large")),  # and not one byte of it
        ):
            async with connected(node.port) as connection:
                connection.send(begun)
                assert refusal(await connection.read_answer()) == refused
        async with connected(node.port) as connection:
            connection.send_request("POST", "/v0/files?name=a.wav", CHUNKED)
            connection.send(b"%x\r\n" % (size + 1) + SONG + b"x")  # and no end
            assert refusal(await connection.read_answer()) == (413, "body_too_large")
        whole = b"%x\r\n" % size + SONG + b"\r\n0\r\n\r\n"
        assert [(await send(node, "a.wav", whole, headers=CHUNKED)).status for _ in range(2)] == [201, 201]
        for headers, body in (((), SONG), (CHUNKED, whole)):
            answer = await send(node, "b.wav", body, headers=headers)
            assert refusal(answer) == (429, "limit_reached")
            assert "library.uploads_max_bytes" in answer.json()["message"]
        assert sorted(os.listdir(sent)) == ["a (2).wav", "a.wav"]
        (sent / "a.wav").unlink()
        assert (await send(node, "b.wav")).status == 201
