import pytest

from tonearm.core.track_codec import MAX_JAVA_TEXT_BYTES, cut_java_text, decode_java_text, encode_java_text

KNOWN = {"": b"", "plain": b"plain", "\0": b"\xc0\x80", "é": b"\xc3\xa9", "€": b"\xe2\x82\xac"}
KNOWN["😀"] = b"\xed\xa0\xbd\xed\xb8\x80"


def test_known_texts() -> None:
    assert {text: encode_java_text(text) for text in KNOWN} == KNOWN
    assert {text: decode_java_text(encoded) for text, encoded in KNOWN.items()} == {text: text for text in KNOWN}


def test_what_is_no_modified_utf8_is_refused() -> None:
    for encoded in (
        b"\xf0\x9f\x98\x80",
        b"\xed\xa0\xbd",
        b"\xed\xb8\x80",
        b"\xff",
        b"\x80",
        b"\xe2\x82",
        b"\xc3",
        b"\xc1\x81",
    ):
        with pytest.raises(ValueError, match=r"bytes|decode"):
            decode_java_text(encoded)
        for text in ("\ud83d", "a\udc80b", "\ude00\ud83d"):
            with pytest.raises(ValueError, match="half of a surrogate pair"):
                encode_java_text(text)


@pytest.mark.parametrize("wrong", [b"\x80", b"\xed\xb8\x80", b"\xed\xa0\xbd", b"\xff"])
@pytest.mark.parametrize("characters", [6 * 1024, 10_000])
def test_what_is_wrong_is_found_in_long_texts_too(wrong: bytes, characters: int) -> None:
    smile = b"\xed\xa0\xbd\xed\xb8\x80"
    for text in (wrong * characters, smile * 2000 + wrong * characters, b"a" * characters + wrong):
        with pytest.raises(ValueError, match=r"bytes|decode"):
            decode_java_text(text)


@pytest.mark.parametrize("character", ["a", "é", "€", "😀", "\0", "a😀", "€😀😀"])
def test_long_texts_decode_and_are_cut_between_characters(character: str) -> None:
    width = len(encode_java_text(character))
    for lead in ("", "x", "xx", "xxx", "xxxx", "xxxxx"):
        text = lead + character * 40_000
        encoded = encode_java_text(text)
        assert decode_java_text(encoded) == text, lead
        cut = cut_java_text(encoded)
        assert text.startswith(decode_java_text(cut)), lead
        assert MAX_JAVA_TEXT_BYTES - width < len(cut) <= MAX_JAVA_TEXT_BYTES or len(cut) == len(encoded), lead
