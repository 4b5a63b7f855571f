"""Decoding encoded identifiers for answers, a little at a time so that the event loop gets its turns."""

import asyncio
from collections.abc import Sequence
from typing import Final

from tonearm.core.errors import BadRequest, InvalidIdentifier
from tonearm.core.json_value import Json
from tonearm.core.track import Track
from tonearm.core.track_codec import decode_track
from tonearm.server.errors import BodyTooLarge
from tonearm.server.replies import encode_json

MAX_ENTRIES: Final = 1000

# Decoding and encoding again takes about 40 µs for an identifier and up to 110 µs for each 1000 characters more, so a
# slice holds the event loop for about 2 ms. One that is longer than a slice (up to 70 ms) is decoded in a thread.
_SLICE_ENTRIES: Final = 40
_SLICE_CHARACTERS: Final = 16 * 1024


async def decoded_track(encoded: str) -> bytes:
    """TrackOut as JSON. Raises `InvalidIdentifier`."""
    if len(encoded) > _SLICE_CHARACTERS:
        return await asyncio.to_thread(_decode, encoded)
    return _decode(encoded)


async def decoded_tracks(entries: Sequence[str]) -> list[bytes]:
    """TrackOuts as JSON, in the order of `entries`. Raises `InvalidIdentifier` that names the first wrong one."""
    tracks: list[bytes] = []
    entries_left, characters_left = _SLICE_ENTRIES, _SLICE_CHARACTERS
    for index, encoded in enumerate(entries):
        if len(encoded) <= _SLICE_CHARACTERS and (not entries_left or len(encoded) > characters_left):
            await asyncio.sleep(0)
            entries_left, characters_left = _SLICE_ENTRIES, _SLICE_CHARACTERS
        entries_left -= 1
        characters_left -= len(encoded)
        try:
            tracks.append(await decoded_track(encoded))
        except InvalidIdentifier as error:
            raise InvalidIdentifier(f"Entry {index} (counted from 0): {error.message}") from error
    return tracks


def identifiers_of(body: Json) -> list[str]:
    """The entries of a decodetracks body. Raises `BadRequest` and `BodyTooLarge`."""
    if not isinstance(body, list):
        raise BadRequest("The body must be an array of encoded tracks, each a string.")
    if len(body) > MAX_ENTRIES:
        raise BodyTooLarge(f"The body has {len(body)} entries. Send at most {MAX_ENTRIES} at once.")
    entries: list[str] = []
    for index, entry in enumerate(body):
        if not isinstance(entry, str):
            raise BadRequest(f"Entry {index} (counted from 0) must be a string.")
        entries.append(entry)
    return entries


def _decode(encoded: str) -> bytes:
    return encode_json(Track("", decode_track(encoded), {}, encoded).as_json({}))
