from tests.support.pictures import GIF, JPEG, SVG, WEBP, png
from tonearm.core.file_formats import picture_type


def test_a_picture_is_known_by_its_first_bytes() -> None:
    pictures = {"image/png": png(), "image/jpeg": JPEG, "image/webp": WEBP, "image/gif": GIF}
    assert {name: picture_type(data) for name, data in pictures.items()} == {name: name for name in pictures}
    for data in (SVG, b"RIFF\0\0\0\0WAVEfmt ", b"BM" + bytes(50), b"\x89PNG", b" " + png(), b""):
        assert picture_type(data) is None
