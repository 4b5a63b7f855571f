"""How the resolver works."""

import sys
from dataclasses import dataclass
from typing import Final

COMMAND: Final = (sys.executable, "-B", "-P", "-m", "tonearm.sources.resolver")


@dataclass(frozen=True, slots=True)
class ResolverSettings:
    """`sites` are names of yt-dlp's extractors; none, or `all`, are all but `generic`. `timeout_s` is for one page."""

    timeout_s: float = 20.0
    sites: tuple[str, ...] = ()
    memory_limit_mb: int = 1024
    pages_at_once: int = 4
    # What a page may make the node load while it is resolved.
    traffic_limit_bytes: int = 64 * 1024 * 1024
    idle_s: float = 60.0
    match_timeout_s: float = 3.0
    # Importing yt-dlp on a machine that is busy, or from a cold disk.
    start_timeout_s: float = 30.0
    command: tuple[str, ...] = COMMAND

    @property
    def permits_generic(self) -> bool:
        return any(site.lower() == "generic" for site in self.sites)
