"""Which local files are opened, and what the others are refused for. A folder is a playlist."""

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Literal, TypeAlias
from unicodedata import normalize

import pytest

from tests.support.fetching import failure_of, opened, opener, opening_fails, playlist_of
from tests.support.processes import descriptors_left, open_descriptors
from tonearm.core.errors import SourceRefused
from tonearm.core.failure import FailureCode, PlayError, PlayFailure
from tonearm.core.opened_source import OpenedSource
from tonearm.core.source_uri import parse_source_uri
from tonearm.sources.lists.listed import MAX_ENTRIES
from tonearm.sources.uploads import Uploads

Form: TypeAlias = Literal["NFC", "NFD"]


def open_below(folder: Path) -> list[str]:
    """What is open of the files and folders below `folder`: others may be opened by this process at any time."""
    return [link for link in open_descriptors().values() if link.startswith(str(folder))]


@pytest.fixture
def music(tmp_path: Path) -> Iterator[Path]:
    """A permitted folder with one file, beside a secret. No descriptor may be left over at the end."""
    folder = tmp_path / "music"
    folder.mkdir()
    (folder / "a song #1.mp3").write_bytes(b"sound")
    (tmp_path / "secret.mp3").write_bytes(b"secret")
    yield folder
    assert open_below(tmp_path) == []


async def content(uri: str, files: bool | tuple[str, ...] = True) -> bytes:
    async with opened(uri, files=files) as file:
        assert (file.is_seekable, file.is_live) == (True, False)
        data = await file.reader.read_at(0, 100)
        descriptor = file.reader.take_descriptor()
        assert descriptor is not None
        with os.fdopen(descriptor, "rb") as given:
            assert given.read() == data
            assert not os.get_inheritable(descriptor)
        assert len(data) == file.size_bytes
        return data


async def test_paths_and_file_uris(music: Path) -> None:
    with chdir(music):
        for uri in (f"{music}/a song #1.mp3", f"file://{music}/a%20song%20%231.mp3", "a song #1.mp3"):
            assert await content(uri) == b"sound"
            assert await content(uri, (str(music),)) == b"sound"
    assert await content(f"file://localhost{music}/a%20song%20%231.mp3") == b"sound"


@pytest.mark.parametrize(("on_disk", "asked"), [("NFD", "NFC"), ("NFC", "NFD")])
async def test_a_file_is_found_whichever_way_its_accents_are_written(music: Path, on_disk: Form, asked: Form) -> None:
    """As in a folder that was copied from macOS."""

    def path(*forms: Form) -> Path:
        return music.joinpath(*map(normalize, forms, ("Müsli", "Café.mp3")))

    path(on_disk).mkdir()
    path(on_disk, on_disk).write_bytes(b"sound")
    inside = (str(music),)
    for wanted in (path(asked, asked), path(on_disk, asked), path(asked, on_disk), path(on_disk, on_disk)):
        assert await content(str(wanted), inside) == b"sound"
    folder = await playlist_of(str(path(asked)), files=inside)
    assert [entry.uri.path for entry in folder.entries] == [str(path(on_disk, on_disk))]
    blocked = re.compile(re.escape(parse_source_uri(str(path(on_disk, on_disk))).normalised))
    failure = await failure_of(str(path(asked, asked)), blocked=[blocked])
    assert failure.code == FailureCode.SOURCE_BLOCKED
    # Of two files the exact name counts.
    path(on_disk, asked).write_bytes(b"other")
    assert await content(str(path(on_disk, asked))) == b"other"
    assert await content(str(path(asked, on_disk))) == b"sound"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_another_form_of_a_name_leads_out_of_no_folder(music: Path, form: Form) -> None:
    other: Form = "NFD" if form == "NFC" else "NFC"
    other_one = music.parent / normalize(form, "Gehör")
    other_one.mkdir()
    (other_one / "a.mp3").write_bytes(b"secret")
    permitted = music.parent / normalize(other, "Gehör")
    permitted.mkdir()
    assert (await failure_of(f"{permitted}/a.mp3", files=(str(permitted),))).code == FailureCode.FILE_MISSING
    permitted.rmdir()  # so the other one is meant
    assert await content(f"{permitted}/a.mp3", (str(permitted),)) == b"secret"
    assert await content(str(other_one / "a.mp3"), (str(permitted),)) == b"secret"
    (music / normalize(form, "lïnk.mp3")).symlink_to(music.parent / "secret.mp3")
    refused = await failure_of(f"{music}/{normalize(other, 'lïnk.mp3')}", files=(str(music),))
    assert refused.code == FailureCode.FILE_MISSING


async def test_a_permitted_folder_behind_a_link_is_found_whichever_way_its_accents_are_written(music: Path) -> None:
    """As where a home folder is a link to another disk. What is sent goes into it, and not into another one beside it,
    which would hide that one at the next start."""
    real = music / normalize("NFD", "Gehör")
    real.mkdir()
    (real / "a.mp3").write_bytes(b"sound")
    link = music.parent / "link"
    link.symlink_to(music)
    inside = (str(link / normalize("NFC", "Gehör")),)
    forms: tuple[Form, ...] = ("NFC", "NFD")
    for asked in forms:
        assert await content(f"{link}/{normalize(asked, 'Gehör')}/a.mp3", inside) == b"sound"
    for below in ("", "sent"):
        async with Uploads(str(music / normalize("NFC", "Gehör") / below), 100).sending("b.mp3", 0) as file:
            assert await file.keep() == str(real / below / "b.mp3")
    assert len(os.listdir(music)) == 2


async def test_what_is_not_opened(music: Path) -> None:
    (music / "empty.mp3").touch()
    (music / "papers").mkdir()
    os.mkfifo(music / "pipe.mp3")
    (music / "link.mp3").symlink_to("/proc/self/environ")
    codes = dict.fromkeys(("papers", "pipe.mp3", "x" * 300 + ".mp3"), FailureCode.FILE_UNREADABLE)
    codes |= {"link.mp3": FailureCode.SOURCE_REFUSED, "empty.mp3": FailureCode.EMPTY}
    for permitted in (True, (str(music),)):
        for name, code in codes.items():
            async with asyncio.timeout(5):
                assert (await failure_of(f"{music}/{name}", files=permitted)).code == code
        missing = await failure_of(f"{music}/none.mp3", files=permitted)
        assert (missing.code, f"looks for it in {music}." in missing.hint) == (FailureCode.FILE_MISSING, True)


async def test_files_of_the_system() -> None:
    for path in ("/dev/zero", "/proc/self/environ", "/sys/kernel/uevent_seqnum", "/proc/self/root/etc/hosts"):
        assert (await failure_of(path)).code == FailureCode.SOURCE_REFUSED
        async with opener() as source_opener:
            with pytest.raises(SourceRefused):
                source_opener.admit(parse_source_uri(path))


async def test_outside_is_refused_before_the_disk_is_asked(music: Path) -> None:
    parent = music.parent
    outside = [f"{parent}/secret.mp3", f"{parent}/none.mp3", f"{parent}/music-of-others/b.mp3", "/etc/passwd"]
    outside += [f"{music}/../none.mp3", f"file://{music}/%2e%2e/secret.mp3", f"file://{music}/..%2fsecret.mp3"]
    for permitted, uris in (((str(music),), outside), (False, [f"{music}/a song #1.mp3"])):
        async with opener(files=permitted) as source_opener:
            for uri in uris:
                with pytest.raises(SourceRefused, match=r"sources\.files"):
                    source_opener.admit(parse_source_uri(uri))
                assert (await opening_fails(source_opener, uri)).code == FailureCode.SOURCE_REFUSED


async def test_missing_and_forbidden_outside_get_the_same_answer(music: Path) -> None:
    (music / "out").symlink_to(music.parent)
    (music / "dangling.mp3").symlink_to(music.parent / "none.mp3")
    answers = [
        await failure_of(f"{music}/{path}", files=(str(music),))
        for path in ("out/secret.mp3", "out/none.mp3", "out/none/none.mp3", "dangling.mp3", "out", "../secret.mp3")
    ]
    assert {answer.code for answer in answers} == {FailureCode.SOURCE_REFUSED}
    assert len({(answer.message, answer.hint) for answer in answers}) == 1


async def test_links_that_stay_inside(music: Path) -> None:
    (music / "link.mp3").symlink_to("a song #1.mp3")
    alias = music.parent / "alias"
    alias.symlink_to(music)
    for folder, name in ((music, "music/link.mp3"), (alias, "music/a song #1.mp3"), (alias, "alias/a song #1.mp3")):
        assert await content(f"{music.parent}/{name}", (str(folder),)) == b"sound"


async def test_file_that_is_swapped_for_a_link_meanwhile(music: Path) -> None:
    target, spare = music / "swapped.mp3", music / "spare"
    spare.symlink_to(music.parent / "secret.mp3")
    async with opener(files=(str(music),)) as source_opener:
        for _ in range(200):
            target.unlink(missing_ok=True)
            target.write_bytes(b"sound")
            opening = asyncio.create_task(source_opener.open(parse_source_uri(str(target))))
            await asyncio.sleep(0)
            os.link(spare, music / "new", follow_symlinks=False)
            (music / "new").replace(target)
            try:
                file = await opening
            except PlayError as error:
                assert error.failure.code == FailureCode.SOURCE_REFUSED  # noqa: PT017
            else:
                assert isinstance(file, OpenedSource)
                assert await file.reader.read_at(0, 100) == b"sound"
                await file.close()


@pytest.mark.parametrize("name", ["a song #1.mp3", "list.m3u", "stream.m3u8"])
async def test_without_free_descriptors_opening_fails_in_clear_words_and_keeps_none(music: Path, name: str) -> None:
    (music / "list.m3u").write_text("a song #1.mp3\n")
    (music / "stream.m3u8").write_text("#EXTM3U\n#EXT-X-ENDLIST\n#EXTINF:1,\na.ts\n")
    failures: list[PlayFailure] = []
    async with opener() as source_opener:
        for left in range(5):
            with descriptors_left(left):
                try:
                    source = await source_opener.open(parse_source_uri(f"{music}/{name}"))
                    if isinstance(source, OpenedSource):
                        await source.close()
                except PlayError as error:
                    failures.append(error.failure)
            assert open_below(music) == [], left
    assert 1 <= len(failures) < 5
    async with opened(f"{music}/a song #1.mp3") as file:
        with descriptors_left(0), pytest.raises(PlayError) as caught:
            await file.reader.read_at(0, 10)
        failures.append(caught.value.failure)
        assert await file.reader.read_at(0, 10) == b"sound"
    assert {failure.code for failure in failures} == {FailureCode.FILE_UNREADABLE}
    assert all("Too many open files" in failure.message and "ulimit" in failure.hint for failure in failures)


def fill(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"sound")
    return folder


async def test_audio_files_come_in_the_order_in_which_people_count(tmp_path: Path) -> None:
    names = ["1 Intro.flac", "2 b.MP3", "10 Finale.mp3", "AC: DC #t=1.ogg", "b.wav", "B 2.wav", "B 10.wav"]
    album = fill(tmp_path / "Best of", *reversed(names), "cover.jpg", ".hidden.mp3", "list.m3u", "10")
    fill(album / "CD 2", "other.mp3")
    for files in (True, (str(tmp_path),)):
        listed = await playlist_of(str(album), files=files)
        assert [Path(entry.uri.path).name for entry in listed.entries] == [*names[:4], "B 2.wav", "B 10.wav", "b.wav"]
        assert all(entry.uri.is_admitted and entry.has_own_tags for entry in listed.entries)
        assert (listed.name, listed.left_out.count) == ("Best of", 0)


async def test_what_is_too_much_or_no_name_is_told(tmp_path: Path) -> None:
    album = fill(tmp_path / "many", *(f"{number}.mp3" for number in range(MAX_ENTRIES + 5)))
    listed = await playlist_of(str(album))
    assert [Path(entry.uri.path).stem for entry in listed.entries] == [str(number) for number in range(MAX_ENTRIES)]
    assert listed.left_out.count == 5
    strange = fill(tmp_path / "strange", "a.mp3")
    (strange / "line\nbreak.mp3").write_bytes(b"sound")
    listed = await playlist_of(str(strange))
    assert ([Path(entry.uri.path).name for entry in listed.entries], listed.left_out.count) == (["a.mp3"], 1)


async def test_a_folder_is_judged_as_its_files_are(tmp_path: Path) -> None:
    music = fill(tmp_path / "music", "a.mp3")
    others = fill(tmp_path / "others", "b.mp3")
    (music / "way out").symlink_to(others)
    (music / "system").symlink_to("/proc/self")
    permitted = (str(music),)
    assert len((await playlist_of(str(music), files=permitted)).entries) == 1
    for path in (music / "way out", music / "system"):
        assert (await failure_of(str(path), files=permitted)).code is FailureCode.SOURCE_REFUSED
    told = await failure_of(str(fill(tmp_path / "papers", "a.txt")))
    assert (told.code, "folder has no audio files" in told.message) == (FailureCode.FILE_UNREADABLE, True)
