"""The sources that are played: good files, and servers that answer in every wrong way."""

import random
from pathlib import Path

from tests.support.audio_files import flac, m4a, mp3, music, opus, tone, vorbis, wav
from tests.support.hls import media_playlist, serve_cut, serve_text, ts
from tests.support.media_server import MediaServer, drip, media, redirect, reset, stall, status
from tests.support.radio_server import fall_silent, radio
from tests.support.strange.files import ending_of, strange_file

STEADY_HZ = 440
STEADY_LEVEL = 0.25
STEADY_S = 20.0  # a whole number of periods: its loop has no joint
_STRANGE = 200


def steady_file(folder: Path) -> str:
    """A tone whose loop joins without a step."""
    path = folder / "steady.wav"
    path.write_bytes(wav(tone(STEADY_HZ, STEADY_S, level=STEADY_LEVEL)))
    return str(path)


class Sources:
    """URIs of all kinds. `seed` decides which."""

    def __init__(self, folder: Path, server: MediaServer, seed: int) -> None:
        self._folder = folder
        self._dice = random.Random(seed)
        sound, long = music(8.0), music(40.0)
        files = {
            "song.wav": wav(sound),
            "song.mp3": mp3(sound),
            "song.flac": flac(sound),
            "song.opus": opus(sound),
            "song.ogg": vorbis(sound),
            "song.m4a": m4a(sound),
        }
        for name, content in files.items():
            (folder / name).write_bytes(content)
        self.good = [str(folder / name) for name in files]
        self.good += [server.serve(f"/{name}", media(content)) for name, content in files.items()]
        album = folder / "album"
        album.mkdir()
        for name in ("song.flac", "song.opus"):
            (album / name).write_bytes(files[name])
        (folder / "list.m3u").write_text("song.mp3\nsong.ogg\n")
        pls = serve_text(server, "/list.pls", "[playlist]\nFile1=song.wav\nFile2=song.m4a\n")
        self._lists = [str(album), str(folder / "list.m3u"), pls]
        whole = mp3(long)
        segments = serve_cut(server, ts(sound, 4))
        self._bad = [
            server.serve("/no-ranges.mp3", media(whole, ranges=False)),
            server.serve("/chunked.mp3", media(whole, ranges=False, chunked=True)),
            server.serve("/cut.mp3", media(whole, cut_after=len(whole) // 3)),
            server.serve("/parts.mp3", media(whole, at_most=50_000)),
            server.serve("/lies.mp3", media(whole, length=len(whole) * 2)),
            server.serve("/hangs.mp3", media(whole, stall_after=100_000)),
            server.serve("/drip.mp3", drip(whole[:20_000], 0.01)),
            server.serve("/never", stall()),
            server.serve("/resets", reset()),
            server.serve("/gone", status(404)),
            server.serve("/broken", status(500)),
            server.serve("/round", redirect("/round")),
            server.serve("/on", redirect("/song.mp3")),
            server.serve("/station", radio(whole, bytes_per_s=24_000, titles=lambda number: f"Title {number}")),
            server.serve("/silent", radio(whole, stop_after=200_000, ends_by=fall_silent)),
            serve_text(server, "/hls/list.m3u8", media_playlist(segments, duration_s=2.0)),
            str(folder / "missing.wav"),
            "http://127.0.0.1:1/refused.mp3",
        ]

    def any(self) -> str:
        """One of all, half of them good."""
        kind = self._dice.random()
        if kind < 0.5:
            return self._dice.choice(self.good if kind < 0.45 else self._lists)
        if kind < 0.8:
            return self._dice.choice(self._bad)
        seed = self._dice.randrange(_STRANGE)
        path = self._folder / f"strange-{seed}.{ending_of(seed)}"
        if not path.exists():
            path.write_bytes(strange_file(seed).data)
        return str(path)
