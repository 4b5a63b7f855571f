"""The row of strange files."""

from typing import Final, NamedTuple

from tests.support.strange.dice import Dice
from tests.support.strange.flac import flac_file
from tests.support.strange.mp3 import mp3_file
from tests.support.strange.mp4 import mp4_file
from tests.support.strange.ogg import ogg_file
from tests.support.strange.wav import wav_file
from tests.support.strange.webm import webm_file

# Ogg and WebM are what is passed through, so most that can go wrong lies there.
_MAKERS: Final = (
    *(ogg_file, webm_file, mp4_file, ogg_file, webm_file),
    *(mp3_file, ogg_file, mp4_file, flac_file, wav_file),
)


class StrangeFile(NamedTuple):
    """`oddities` say what is strange about it."""

    seed: int
    ending: str
    oddities: tuple[str, ...]
    data: bytes

    def __str__(self) -> str:
        return f"strange {self.ending} {self.seed} ({', '.join(self.oddities) or 'ordinary'})"


def ending_of(seed: int) -> str:
    """That of file `seed`, which it tells without making it."""
    return _MAKERS[seed % len(_MAKERS)].__name__.removesuffix("_file")


def strange_file(seed: int) -> StrangeFile:
    """File `seed` of an endless row."""
    dice = Dice(seed)
    data = _MAKERS[seed % len(_MAKERS)](dice)
    return StrangeFile(seed, ending_of(seed), tuple(sorted(dice.oddities)), data)
