from pathlib import Path

import pytest

from tests.support.audio_files import flac, music


@pytest.fixture
def song(tmp_path: Path) -> Path:
    path = tmp_path / "song.flac"
    path.write_bytes(flac(music(0.5)))
    return path
