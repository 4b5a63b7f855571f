import pytest

from tests.support.pictures import GIF, JPEG, SVG, WEBP, png
from tonearm.core.file_formats import picture_type


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (png(), "image/png"),
        (JPEG, "image/jpeg"),
        (WEBP, "image/webp"),
        (GIF, "image/gif"),
        (SVG, None),
        (b"RIFF\0\0\0\0WAVEfmt ", None),
        (b"\x89PNG", None),
        (b" " + png(), None),
        (b"", None),
    ],
)
def test_a_picture_is_known_by_its_first_bytes(data: bytes, media_type: str | None) -> None:
    assert picture_type(data) == media_type
