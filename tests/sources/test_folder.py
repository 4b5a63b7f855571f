"""A folder as a playlist."""

from pathlib import Path

from tests.support.fetching import failure_of, playlist_of
from tonearm.core.failure import FailureCode
from tonearm.sources.lists.listed import MAX_ENTRIES


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
