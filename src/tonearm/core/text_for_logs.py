"""Texts as they may stand in a log, which more people read than may know every secret."""

import re
from typing import Final

# scheme, then userinfo, then what may stay, then query and fragment
_URI: Final = re.compile(r"\b([A-Za-z][A-Za-z0-9+.\-]*://)([^\s/?#@]*@)?([^\s?#]*)([?#]\S*)?")


def text_for_logs(text: str) -> str:
    """`text` in one line, without the userinfo, queries and fragments of the URIs in it: tokens stand there."""
    return _URI.sub(r"\1\3", " ".join(text.split()))
