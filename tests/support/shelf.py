"""Songs in a folder."""

from pathlib import Path

from tests.support.audio_files import music, pcm_of, wav


class Shelf:
    """Songs in a folder, each nowhere the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seed = 0

    def put(self, name: str, data: bytes) -> str:
        path = self._folder / name
        path.write_bytes(data)
        return str(path)

    def song(self, seconds: float, name: str | None = None) -> tuple[str, bytes]:
        """A new WAV file and what is to be heard of it."""
        self._seed += 1
        signal = music(seconds, seed=self._seed)
        return self.put(name or f"song{self._seed}.wav", wav(signal)), pcm_of(signal)
