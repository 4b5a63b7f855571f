"""CUE sheets: each audio track is a part of a file."""

import re
from dataclasses import dataclass
from typing import Final

from tonearm.sources.lists.listed import Listed, clean, lines_of

_TRACK: Final = re.compile(r"^[ \t]*TRACK[ \t]+[0-9]{1,3}[ \t]+AUDIO[ \t]*$", re.IGNORECASE | re.ASCII | re.MULTILINE)
_LINE: Final = re.compile(r"([A-Z]+)\s+(.*)", re.IGNORECASE | re.ASCII)
_QUOTED: Final = re.compile(r'"([^"]*)"(?:\s|$)')
_TIME: Final = re.compile(r"0*1\s+([0-9]{1,4}):([0-5]?[0-9]):([0-7]?[0-9])", re.ASCII)
_FRAMES_PER_SECOND: Final = 75


def is_cue(text: str) -> bool:
    return _TRACK.search("\n".join(lines_of(text))) is not None


@dataclass(slots=True)
class _Track:
    file: str
    is_audio: bool
    title: str = ""
    author: str = ""
    start_ms: int | None = None  # the time of index 1; the gap before it belongs to the track before


def cue(text: str) -> tuple[list[Listed], str]:
    """The tracks and the name of a CUE sheet: each audio track from its index 1 to that of the next track in the same
    file, else to the end.

    Lines before the first track are about the whole sheet; its performer is that of tracks without one.
    """
    tracks: list[_Track] = []
    file = author = name = ""
    for line in lines_of(text):
        found = _LINE.fullmatch(line.strip())
        command, value = (found[1].upper(), found[2]) if found is not None else ("", "")
        track = tracks[-1] if tracks else None
        if command == "FILE":
            file = _file(value)
        elif command == "TRACK":
            tracks.append(_Track(file, is_audio=value.upper().endswith("AUDIO"), author=author))
        elif command == "PERFORMER" and track is None:
            author = _text(value)
        elif command == "PERFORMER" and track is not None:
            track.author = _text(value)
        elif command == "TITLE" and track is None:
            name = _text(value)
        elif command == "TITLE" and track is not None:
            track.title = _text(value)
        elif command == "INDEX" and track is not None and (time := _TIME.fullmatch(value)) is not None:
            # A track's number may stand in one file, and its index 1 in the next.
            track.file = file
            frames = (int(time[1]) * 60 + int(time[2])) * _FRAMES_PER_SECOND + int(time[3])
            track.start_ms = round(frames * 1000 / _FRAMES_PER_SECOND)
    return _parts(tracks), name


def _parts(tracks: list[_Track]) -> list[Listed]:
    found: list[Listed] = []
    following: _Track | None = None
    for track in reversed(tracks):
        if track.start_ms is None or not track.file:
            continue
        if track.is_audio:
            found.append(_part(track, following))
        following = track
    return found[::-1]


def _part(track: _Track, following: _Track | None) -> Listed:
    start_ms = track.start_ms or 0
    end_ms = following.start_ms if following is not None and following.file == track.file else None
    if end_ms is not None and end_ms <= start_ms:
        end_ms = None
    return Listed(
        track.file,
        clean(track.title),
        author=clean(track.author) or "",
        is_part=True,
        start_ms=start_ms,
        end_ms=end_ms,
        length_ms=0 if end_ms is None else end_ms - start_ms,
    )


def _file(value: str) -> str:
    """The name in `"name" WAVE` or `name WAVE`."""
    quoted = _QUOTED.match(value)
    return quoted[1].strip() if quoted is not None else value.rpartition(" ")[0].strip() or value


def _text(value: str) -> str:
    """The text without its quotes. There may be others within it, as in `"Song (12" Mix)"`."""
    if value.startswith('"') and value.endswith('"'):
        return value[1:-1]
    quoted = _QUOTED.match(value)
    return quoted[1] if quoted is not None else value
