"""Plain log lines on stderr: time, level, message."""

import logging
from typing import Final

_FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"


def set_up_logging(level: str) -> None:
    """Everything from `level` ("debug", "info", "warning", "error") on goes to stderr."""
    logging.basicConfig(level=level.upper(), format=_FORMAT, datefmt="%Y-%m-%d %H:%M:%S", force=True)
    # Each is told by the node in its own words; theirs would come for every request and every selector.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
