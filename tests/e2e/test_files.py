"""The library of a running node: what is shown of it, and what is sent into it."""

import asyncio
import os
import resource
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_from_bytes

import pytest

from tests.support.audio_files import music, wav
from tests.support.e2e_players import IMPATIENT, create, state, until_state
from tests.support.eventually import eventually
from tests.support.http_client import Answer, connected, request
from tests.support.running_node import RunningNode, running_node
from tonearm.client import BadRequest, Forbidden, NotFound
from tonearm.client import Node as NodeClient

SONG = wav(music(0.5))
PROXIED = (("X-Forwarded-For", "203.0.113.7"),)


async def files(node: RunningNode, path: str | None = None, **more: object) -> Any:
    query = {**({} if path is None else {"path": path}), **more}
    text = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
    answer = await node.request("GET", f"/v0/files?{text}")
    assert answer.status == 200, answer.body
    return answer.json()


def names(found: Any) -> list[str]:
    return [entry["name"] for entry in found["entries"]]


async def send(node: RunningNode, name: str, body: bytes = SONG, **options: Any) -> Answer:
    return await request(node.port, "POST", f"/v0/files?name={quote(name, safe='')}", body=body, **options)


def refused(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json()["code"]


def uploading(folder: Path, more: str = "") -> str:
    return f'{IMPATIENT}[library]\nuploads = "{folder}/sent"\n{more}'


async def test_clients_choose_music_in_the_working_folder(node: RunningNode) -> None:
    for name in ("Song 10.wav", "song 2.wav", "Ünï <b>&amp;.wav", "list.m3u", "notes.txt", ".hidden.wav", "no ending"):
        (node.folder / name).write_bytes(SONG)
    (node.folder / "Zoo").mkdir()
    (node.folder / "Zoo" / "a.wav").write_bytes(b"")
    whole = await files(node)
    assert (whole["path"], whole["parent"], whole["total"]) == ("/", None, 1)
    (top,) = whole["entries"]
    assert (top["path"], top["uri"], top["kind"], top["bytes"]) == ("/0", str(node.folder), "folder", 0)
    found = await files(node, "/0", details="true")
    assert (found["path"], found["parent"], found["total"]) == ("/0", "/", 5)
    assert names(found) == ["Zoo", "list.m3u", "song 2.wav", "Song 10.wav", "Ünï <b>&amp;.wav"]
    song = found["entries"][2]
    modified_ms = (node.folder / "song 2.wav").stat().st_mtime_ns // 1_000_000
    assert song == {
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
    assert [entry["kind"] for entry in found["entries"]] == ["folder", "playlist", "audio", "audio", "audio"]
    assert "title" not in found["entries"][1]
    for entry in found["entries"]:
        assert (
            await node.request("POST", "/v0/players/p/queue", {"uri": entry["uri"]})
        ).status == 404  # no such player
    await create(node, "p", found["entries"][4]["uri"])
    await until_state(node, "p", lambda now: now["track"]["info"]["length"] == 500)
    assert names(await files(node, "/0", offset=1, limit=2)) == ["list.m3u", "song 2.wav"]
    assert (await files(node, "/0/Zoo/", offset=7))["entries"] == []
    below = await files(node, "/0/Zoo")
    assert (below["parent"], names(below)) == ("/0", ["a.wav"])


async def test_words_are_looked_for_in_names_and_folders(node: RunningNode) -> None:
    for path in ("Jazz/Miles Davis/So What.wav", "Jazz/Miles Davis/Blue.wav", "Rock/What/so.wav", "so what.txt"):
        (node.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (node.folder / path).write_bytes(SONG)
    (node.folder / "Jazz" / "loop").symlink_to(node.folder)  # nothing is found twice
    for query, path, expected in (
        ("what SO", "", ["So What.wav", "so.wav"]),
        ("what so", "/0/Jazz", ["So What.wav", "so.wav"]),  # the second by the link
        ("\N{FULLWIDTH LATIN SMALL LETTER M}iles", "/0", ["Blue.wav", "So What.wav"]),
        ("miles blue", "/", ["Blue.wav"]),
        ("no such word", "/0", []),
    ):
        found = await files(node, path, query=query)
        assert (names(found), found["total"]) == (expected, len(expected)), query
    assert names(await files(node, "/0", query="miles", limit=1, offset=1)) == ["So What.wav"]


async def test_nothing_outside_is_shown_or_found(node: RunningNode, tmp_path: Path) -> None:
    (tmp_path / "secret.wav").write_bytes(SONG)
    inside = node.folder / "in"
    inside.mkdir()
    (inside / "song.wav").write_bytes(SONG)
    (inside / ".git").mkdir()
    (inside / ".git" / "hidden.wav").write_bytes(SONG)
    links: dict[str, str | Path] = {
        "out": tmp_path,
        "out.wav": tmp_path / "secret.wav",
        "etc": "/etc",
        "up": "../..",
        "loop": "loop",
        "loop.wav": "loop.wav",
        "none.wav": "no such file",
        "shown by a link": ".git",
        "again.wav": "song.wav",
    }
    for name, target in links.items():
        (inside / name).symlink_to(target)
    os.mkfifo(inside / "pipe.wav")
    (inside / "folder.wav").mkdir()
    assert names(await files(node, "/0/in")) == ["folder.wav", "again.wav", "song.wav"]
    assert names(await files(node, "/0", query="wav")) == ["again.wav", "song.wav"]
    for path in (
        *(
            "/0/in/..",
            "/0/..",
            "/0/../..",
            "/..",
            "/0/in/../in",
            "/0/./in",
            "/1",
            "/0/in/.git",
            "/0/in/out",
            "/0/in/up",
        ),
        *("/0/in/out/secret.wav", "/0/in/etc", "/0/in/loop", "/0/in/song.wav", "/0/in/song.wav/x", "/0/none", "/00"),
        *("/0/in/shown by a link", "/etc", "0", str(node.folder), "/0//in", "/0/in\0", "/0/%2e%2e", "/0/in\n"),
        "/0/" + "a" * 300,
    ):
        for query in ("", "&query=wav"):
            answer = await node.request("GET", f"/v0/files?path={quote(path, safe='')}{query}")
            assert refused(answer) == (404, "file_not_found"), (path, query)
    for raw in ("%2e%2e", "%2E%2e", "..", "%252e%252e", "..%2f..", "%c0%ae%c0%ae", "..%5c"):
        answer = await node.request("GET", f"/v0/files?path=/0/in/{raw}")
        assert answer.status in (400, 404), raw
    for query in ("offset=-1", "limit=0", "limit=1001", "limit=x", "details=yes", "path=/0&path=/0"):
        assert (await node.request("GET", f"/v0/files?{query}")).status == 400, query


async def test_names_that_programs_left_behind_can_be_chosen_or_are_not_shown(node: RunningNode) -> None:
    latin = b"caf\xe9"
    folder = node.folder / os.fsdecode(latin)
    folder.mkdir()
    for name in (b"\xe9t\xe9.wav", b"a\nb.wav", b"\x1b[31m.wav", b"x" * 251 + b".wav"):
        (folder / os.fsdecode(name)).write_bytes(SONG)
    (top,) = (await files(node, "/0"))["entries"]
    assert (top["name"], top["path"]) == ("café", "/0/café")
    assert top["uri"].endswith(quote_from_bytes(latin))
    found = await files(node, top["path"])
    assert names(found) == ["x" * 251 + ".wav", "été.wav"]
    await create(node, "p", found["entries"][1]["uri"])
    await until_state(node, "p", lambda now: now["track"]["info"]["length"] == 500)


async def test_folders_are_those_of_the_configuration(tmp_path: Path) -> None:
    one, other, work = (tmp_path / name for name in ("one", "other", "work"))
    for folder in (one, other, work):
        folder.mkdir()
        (folder / f"{folder.name}.wav").write_bytes(SONG)
    (one / "link").symlink_to(other)
    config = f'[sources]\nfiles = ["{one}", "{other}"]\n'
    async with running_node(work, config) as node:
        assert [entry["path"] for entry in (await files(node))["entries"]] == ["/0", "/1"]
        assert names(await files(node, "/0")) == ["link", "one.wav"]  # from one folder of the library into another
        assert names(await files(node, "/0/link")) == ["other.wav"]
        # A list of folders is meant for everybody.
        assert (await node.request("GET", "/v0/files", headers=PROXIED)).status == 200
    async with running_node(work, f'{config}[library]\nfolders = ["{other}"]\n') as node:
        assert names(await files(node, "/0")) == ["other.wav"]
    async with running_node(work, '[library]\nfolders = ["/"]\n') as node:
        assert not {"proc", "sys", "dev"} & set(names(await files(node, "/0", limit=1000)))
        for path in ("/0/proc", "/0/proc/self", "/0/dev", "/0/sys"):
            assert refused(await node.request("GET", f"/v0/files?path={path}")) == (404, "file_not_found")
        assert names(await files(node, f"/0{other}")) == ["other.wav"]


async def test_who_may_play_no_files_sees_none_and_sends_none(tmp_path: Path, node: RunningNode) -> None:
    answer = await send(node, "a.wav")
    assert refused(answer) == (403, "uploads_off")
    assert "library.uploads" in answer.json()["message"]
    (tmp_path / "song.wav").write_bytes(SONG)
    async with running_node(tmp_path, uploading(tmp_path)) as node:
        for method, target in (
            ("GET", "/v0/files"),
            ("GET", "/v0/files?path=/0/none"),
            ("POST", "/v0/files?name=a.wav"),
        ):
            answer = await request(node.port, method, target, headers=PROXIED, body=SONG)
            assert refused(answer) == (403, "source_refused"), target
    async with running_node(tmp_path, "[sources]\nfiles = false\n") as node:
        assert refused(await node.request("GET", "/v0/files")) == (403, "source_refused")
        assert refused(await send(node, "a.wav")) == (403, "source_refused")
    assert not (tmp_path / "sent").exists()


async def test_what_is_sent_is_there_and_plays(tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    async with running_node(tmp_path, uploading(tmp_path)) as node:
        answers = await asyncio.gather(*(send(node, "../../My Song.wav") for _ in range(3)))
        kept = sorted(answer.json()["name"] for answer in answers)
        assert kept == ["My Song (2).wav", "My Song (3).wav", "My Song.wav"]
        for answer in answers:
            body = answer.json()
            assert (answer.status, body["uri"]) == (201, str(sent / body["name"]))
            assert (body["bytes"], body["title"], body["length"]) == (len(SONG), body["name"][:-4], 500)
            assert (sent / body["name"]).read_bytes() == SONG
        assert names(await files(node, "/0/sent")) == ["My Song (2).wav", "My Song (3).wav", "My Song.wav"]
        await create(node, "p", answers[0].json()["uri"])
        await until_state(node, "p", lambda now: now["track"]["info"]["length"] == 500)
        chunked = (("Transfer-Encoding", "chunked"),)
        body = b"%x\r\n" % len(SONG) + SONG + b"\r\n0\r\n\r\n"
        assert (await send(node, "in pieces.wav", body, headers=chunked)).json()["name"] == "in pieces.wav"
        for name, content, expected in (
            ("song.txt", SONG, (400, "bad_request")),
            ("../../x", SONG, (400, "bad_request")),
            ("", SONG, (400, "bad_request")),
            ("text.mp3", b"It was a dark and stormy night. " * 999, (400, "load_failed")),
            ("empty.mp3", b"", (400, "load_failed")),
            ("list.mp3", b"#EXTM3U\n/etc/passwd\n", (400, "load_failed")),
            ("half.wav", SONG[:20], (400, "load_failed")),
        ):
            assert refused(await send(node, name, content)) == expected, name
        assert (await request(node.port, "POST", "/v0/files", body=SONG)).status == 400
        assert sorted(os.listdir(sent)) == [*kept, "in pieces.wav"]
        assert sorted(os.listdir(tmp_path)) == ["node-under-test.toml", "sent"]
        assert (await state(node, "p"))["id"] == "p"


async def test_half_a_file_leaves_nothing(tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.mkdir()
    (sent / ".tonearm-left-behind.wav").touch()
    os.utime(sent / ".tonearm-left-behind.wav", (0, 0))  # of a node that was killed
    head = b"POST /v0/files?name=half.wav HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    async with running_node(tmp_path, uploading(tmp_path, "[server]\nrequest_timeout_s = 1\n")) as node:
        async with connected(node.port) as connection:
            connection.send(head + SONG)
            await eventually(lambda: len(os.listdir(sent)) == 1, "the file is being written")
            assert names(await files(node, "/0/sent")) == []
        await eventually(lambda: os.listdir(sent) == [], "what the lost client sent is gone")
        async with connected(node.port) as connection:
            connection.send(head + SONG)
            answer = await connection.read_answer()  # no byte came for too long
            assert refused(answer) == (400, "bad_request")
        await eventually(lambda: os.listdir(sent) == [], "what the slow client sent is gone")


async def test_files_have_limits(tmp_path: Path) -> None:
    sent, size = tmp_path / "sent", len(SONG)
    limits = f"upload_max_bytes = {size}\nuploads_max_bytes = {2 * size + 100}\n"
    async with running_node(tmp_path, uploading(tmp_path, limits)) as node:
        announced = b"POST /v0/files?name=a.wav HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (size + 1)
        async with connected(node.port) as connection:
            connection.send(announced)  # and not one byte of it
            assert refused(await connection.read_answer()) == (413, "body_too_large")
        chunked = (("Transfer-Encoding", "chunked"),)
        async with connected(node.port) as connection:
            connection.send_request("POST", "/v0/files?name=a.wav", chunked)
            connection.send(b"%x\r\n" % (size + 1) + SONG + b"x")  # and no end
            assert refused(await connection.read_answer()) == (413, "body_too_large")
        assert [(await send(node, "a.wav")).status for _ in range(2)] == [201, 201]
        for headers, body in (((), SONG), (chunked, b"%x\r\n" % size + SONG + b"\r\n0\r\n\r\n")):
            answer = await send(node, "b.wav", body, headers=headers)
            assert refused(answer) == (429, "limit_reached")
            assert "library.uploads_max_bytes" in answer.json()["message"]
        assert sorted(os.listdir(sent)) == ["a (2).wav", "a.wav"]
        (sent / "a.wav").unlink()
        assert (await send(node, "b.wav")).status == 201


async def test_a_full_disk_is_told(tmp_path: Path) -> None:
    async with running_node(tmp_path, uploading(tmp_path)) as node:
        # Of the system's ways to say that there is no room this one needs no disk of its own.
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (len(SONG) // 2, resource.RLIM_INFINITY))
        assert refused(await send(node, "a.wav")) == (507, "disk_full")
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert os.listdir(tmp_path / "sent") == []
        assert (await send(node, "a.wav")).status == 201


async def test_the_client_lists_and_sends(tmp_path: Path, node: RunningNode) -> None:
    async with NodeClient(node.url) as client:
        with pytest.raises(Forbidden, match=r"library\.uploads"):
            await client.send_file(SONG, "a.wav")
    (tmp_path / "here.wav").write_bytes(SONG)
    async with running_node(tmp_path, uploading(tmp_path)) as node, NodeClient(node.url) as client:
        kept = await client.send_file(tmp_path / "here.wav")
        assert (kept.name, kept.length) == ("here.wav", 500)
        assert (await client.send_file(SONG, "bytes.wav")).name == "bytes.wav"
        found = await client.files("/0", "here", details=True)
        assert [(entry.path, entry.title) for entry in found.entries] == [
            ("/0/here.wav", "here"),
            ("/0/sent/here.wav", "here"),
        ]
        assert (await client.files()).parent is None
        with pytest.raises(NotFound):
            await client.files("/0/none")
        with pytest.raises(BadRequest, match="audio"):
            await client.send_file(b"x", "a.txt")
