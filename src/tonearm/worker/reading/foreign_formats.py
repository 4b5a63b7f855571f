"""Recognises by their first bytes common files that are not audio or not supported, so that error messages can name
them.
"""

import re
from typing import Final, NamedTuple

from tonearm.core.failure import FailureCode
from tonearm.core.file_formats import id3_tag_bytes, picture_type


class Foreign(NamedTuple):
    """`is_what` completes the sentence `This is …`; `hint` is advice for the user."""

    is_what: str
    hint: str
    code: FailureCode = FailureCode.NOT_AUDIO


def _sound(is_what: str, hint: str) -> Foreign:
    return Foreign(f"{is_what}, which is not played", hint, FailureCode.UNSUPPORTED_CODEC)


_GIVE_SOUND: Final = "Give the direct address of an audio file, such as MP3, FLAC, Ogg, Opus, WAV or M4A."
_LOSSLESS: Final = "Convert it to FLAC, which loses nothing either."
_RECORD: Final = "Convert it to FLAC or MP3 with a player that knows it."
_DSD: Final = _sound("DSD", "Convert it to FLAC.")
_MIDI: Final = _sound(
    "MIDI: notes and no sound", "Make an audio file of it with a synthesizer, such as FluidSynth, and give that."
)
_TRACKER: Final = _sound("a tracker module", _RECORD)
_ARCHIVE: Final = Foreign("a packed archive", "Unpack the archive, and give its audio files or their folder.")
_MUSEPACK: Final = _sound("Musepack", _RECORD)
_FEED: Final = Foreign(
    "a podcast feed",
    "Give the feed as a link, or as a file with the extension .rss or .xml; its episodes then become tracks.",
)
_PAGE: Final = Foreign(
    "a web page, perhaps a login or an error, not audio",
    "Open the address in a browser to see what it says, and give the direct address of the audio file.",
)


def _list(kind: str, ending: str) -> Foreign:
    hint = f"Give the playlist a name that ends in {ending}, or have its server send a playlist's content type."
    return Foreign(f"a playlist ({kind}) under another name", hint)


_BY_FIRST_BYTES: Final = (
    (b"DSD ", _DSD),
    (b"MAC ", _sound("Monkey's Audio (APE)", _LOSSLESS)),
    (b"MPCK", _MUSEPACK),
    (b"MP+", _MUSEPACK),
    (b"TTA1", _sound("True Audio (TTA)", _LOSSLESS)),
    (b"TTA2", _sound("True Audio (TTA)", _LOSSLESS)),
    (b"tBaK", _sound("TAK", _LOSSLESS)),
    (b"OFR ", _sound("OptimFROG", _LOSSLESS)),
    (b".RMF", _sound("RealMedia", "Convert it to MP3 or AAC.")),
    (b".ra\xfd", _sound("RealAudio", "Convert it to MP3 or AAC.")),
    (b"#!AMR", _sound("AMR, as telephones record", "Convert it to MP3, Opus or WAV.")),
    (b"MThd", _MIDI),
    (b"Extended Module: ", _TRACKER),
    (b"IMPM", _TRACKER),
    (b"PSID", _TRACKER),
    (b"RSID", _TRACKER),
    (b"NESM\x1a", _TRACKER),
    (b"SNES-SPC700", _TRACKER),
    (b"PK\3\4", _ARCHIVE),
    (b"Rar!\x1a\7", _ARCHIVE),
    (b"7z\xbc\xaf\x27\x1c", _ARCHIVE),
    (b"\x1f\x8b\x08", _ARCHIVE),
    (b"\xfd7zXZ\0", _ARCHIVE),
    (b"BZh", _ARCHIVE),
    (b"%PDF-", Foreign("a document (PDF)", _GIVE_SOUND)),
    (b"d8:announce", Foreign("a torrent, which names files elsewhere", _GIVE_SOUND)),
)
_STARTS: Final = tuple(start for start, _ in _BY_FIRST_BYTES)
# The first bytes, further bytes, and the offset of these.
_BY_TWO_WORDS: Final = ((b"FRM8", b"DSD ", 12, _DSD), (b"RIFF", b"RMID", 8, _MIDI))
_AUDIBLE: Final = _sound("an encrypted Audible book", "Convert the book to MP3 or M4B with the key of your account.")

_TEXT_MARKS: Final = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))
_MARKS: Final = tuple(mark for mark, _ in _TEXT_MARKS)
_BEFORE_ROOT: Final = re.compile(r"<\?[^>]*>|<!--.*?-->|<![^>]*>", re.DOTALL)
_ROOT: Final = re.compile(r"<(?:[a-z][\w.-]{0,40}:)?([a-z][\w.-]{0,40})(?=[\s/>])", re.ASCII)
_BY_ROOT: Final = {
    **dict.fromkeys(("html", "head", "body", "script", "meta", "title", "div"), _PAGE),
    **dict.fromkeys(("rss", "rdf", "feed"), _FEED),
    "opml": Foreign("a list of podcasts (OPML)", "Give the address of one of its feeds: an xmlUrl in it."),
    "mpd": Foreign(
        "a DASH manifest (.mpd), which is not played",
        "Give the HLS address (.m3u8) of the stream, or with the resolver the address of its page.",
    ),
    "smoothstreamingmedia": Foreign(
        "a manifest of Smooth Streaming, which is not played", "Give the HLS address (.m3u8) of the stream."
    ),
    "asx": _list("ASX", ".asx"),
    "playlist": _list("XSPF", ".xspf"),
}
_XML: Final = Foreign("XML of a kind that is not played", _GIVE_SOUND)


def foreign_format(first: bytes) -> Foreign | None:
    """The unsupported format that begins with these bytes; None if the bytes may be playable audio."""
    bare = first[id3_tag_bytes(first) :] or first
    if bare.startswith(_STARTS):
        return next(foreign for start, foreign in _BY_FIRST_BYTES if bare.startswith(start))
    for start, word, at, foreign in _BY_TWO_WORDS:
        if first.startswith(start) and first.startswith(word, at):
            return foreign
    if first[4:12] in (b"ftypaax ", b"ftypaaxc"):
        return _AUDIBLE
    if picture_type(first) is not None:
        return Foreign("a picture", _GIVE_SOUND)
    is_text = first.startswith(_MARKS) or first[:64].lstrip()[:1] in (b"<", b"#", b"[", b"{")
    return _foreign_text(first) if is_text else None


def _foreign_text(first: bytes) -> Foreign | None:
    mark, encoding = next((found for found in _TEXT_MARKS if first.startswith(found[0])), (b"", "latin-1"))
    text = first[len(mark) :].decode(encoding, "replace").lstrip().lower()
    if text.startswith("#extm3u"):
        return _list("M3U", ".m3u or .m3u8")
    if text.startswith("[playlist]"):
        return _list("PLS", ".pls")
    if text.startswith(('{"', "{\n", "{\r\n", '[{"')):
        return Foreign("JSON, the answer of an API", _GIVE_SOUND)
    if not text.startswith("<") or (encoding == "latin-1" and "\0" in text[:64]):
        return None
    if text.startswith("<!doctype html"):
        return _PAGE
    root = _ROOT.search(_BEFORE_ROOT.sub("", text))
    return None if root is None else _BY_ROOT.get(root[1], _XML)
