"""Which of the streams in an HLS master playlist is played: the one with the best sound."""

from typing import Final

from tonearm.sources.hls_playlist import MasterPlaylist, Rendition, Variant

# RFC 6381 names, by their beginnings. Codecs that the decoder does not have are worth less than unknown ones.
_AUDIO_RANKS: Final = (
    ("mp4a.40.42", 0),  # xHE-AAC
    ("mp4a.40.5", 2),  # HE-AAC: for low bit rates
    ("mp4a.40.29", 2),
    ("mp4a", 3),
    ("mp3", 3),
    ("opus", 3),
    ("vorbis", 3),
    ("flac", 4),
    ("alac", 4),
    ("ac-3", 2),  # mostly surround, which would only be mixed down
    ("ec-3", 2),
    ("ac-4", 0),
    ("dts", 0),
)
_UNKNOWN_RANK: Final = 1
_NO_AUDIO_RANK: Final = 0


def best_audio(master: MasterPlaylist) -> str:
    """The reference of the media playlist to play.

    - Where sound has playlists of its own (`EXT-X-MEDIA` with a URI), only that is fetched: the default rendition of
      the group that belongs to the best sound, then to the highest bandwidth.
    - Else a variant without picture: the best codec, then the highest bandwidth.
    - Else, because the picture has to be fetched along: of those with the best codec the lowest bandwidth.
    """
    separate = [variant for variant in master.variants if _rendition_of(variant, master) is not None]
    if separate:
        rendition = _rendition_of(max(separate, key=_quality), master)
        assert rendition is not None
        assert rendition.reference is not None
        return rendition.reference
    sound_only = [variant for variant in master.variants if not _has_picture(variant)]
    if any(_audio_rank(variant) > _NO_AUDIO_RANK for variant in sound_only):
        return max(sound_only, key=_quality).reference
    return max(master.variants, key=lambda variant: (_audio_rank(variant), -variant.bandwidth)).reference


def _rendition_of(variant: Variant, master: MasterPlaylist) -> Rendition | None:
    """The rendition that plays with the variant unless the user chooses; None when it is in the variant itself."""
    group = [rendition for rendition in master.renditions if rendition.group == variant.audio_group]
    if not group:
        return None
    chosen = max(group, key=lambda rendition: (rendition.is_default, rendition.is_autoselect))
    return chosen if chosen.reference is not None else None


def _quality(variant: Variant) -> tuple[int, int]:
    return _audio_rank(variant), variant.bandwidth


def _audio_rank(variant: Variant) -> int:
    if not variant.codecs:
        return _UNKNOWN_RANK
    return max((_codec_rank(codec) for codec in variant.codecs if _is_audio(codec)), default=_NO_AUDIO_RANK)


def _has_picture(variant: Variant) -> bool:
    return variant.has_resolution or any(not _is_audio(codec) for codec in variant.codecs)


def _codec_rank(codec: str) -> int:
    return next(rank for beginning, rank in _AUDIO_RANKS if codec.lower().startswith(beginning))


def _is_audio(codec: str) -> bool:
    return any(codec.lower().startswith(beginning) for beginning, _ in _AUDIO_RANKS)
