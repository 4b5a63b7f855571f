"""What processes that read what strangers wrote may know of the node's environment."""

import site
from collections.abc import Mapping
from typing import Final

# What the interpreter and the loader need to find their files.
_KEPT: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL")


def minimal_environment(environment: Mapping[str, str], *also: str) -> dict[str, str]:
    """The variables of `environment` that a Python process needs to run, and those named in `also`.

    Passwords, keys, proxies and settings of users stay outside.
    """
    kept = {name: environment[name] for name in (*_KEPT, *also) if name in environment}
    if site.ENABLE_USER_SITE:
        kept["PYTHONUSERBASE"] = site.getuserbase()  # packages of the user are found by HOME, which is not kept
    return kept
