"""Keys of the older node, which a file or the environment may still have. They are dropped with a warning."""

from typing import Any, Final

_OLDER_KEYS: Final = (
    ("logging", "clean_log_on_start"),
    ("resolver", "allow_spotify_title_search"),
    ("resolver", "ffmpeg_path"),
    ("resolver", "preferred_format"),
    ("resolver", "ytdlp_path"),
)
_OLDER_SECTION: Final = "spotify"


def is_older_key(section: str, key: str) -> bool:
    return section == _OLDER_SECTION or (section, key) in _OLDER_KEYS


def drop_older_keys(raw: dict[str, Any]) -> list[str]:
    """Takes them out of `raw` and returns their names."""
    dropped = []
    for section, key in _OLDER_KEYS:
        values = raw.get(section)
        if isinstance(values, dict) and key in values:
            del values[key]
            dropped.append(f"{section}.{key}")
    if _OLDER_SECTION in raw:
        del raw[_OLDER_SECTION]
        dropped.append(f"[{_OLDER_SECTION}]")
    return dropped
