"""What a player may be called: nothing that has to be escaped in a path."""

import re
from typing import Final

from tonearm.core.errors import BadRequest

MAX_PLAYER_ID_CHARACTERS: Final = 128
_PLAYER_ID: Final = re.compile(rf"[A-Za-z0-9._~:@+\-]{{1,{MAX_PLAYER_ID_CHARACTERS}}}")


def is_player_id(text: str) -> bool:
    return _PLAYER_ID.fullmatch(text) is not None and text not in (".", "..")


def require_player_id(text: str) -> None:
    """Raises `BadRequest`."""
    if not is_player_id(text):
        raise BadRequest(
            "A player's id has 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + - and is not '.' or '..'."
        )
