"""Texts made fit for a log, which more people read than may know the secrets in URIs."""

import re
from typing import Final

# scheme, userinfo, host and path, query and fragment
_URI: Final = re.compile(r"\b([A-Za-z][A-Za-z0-9+.\-]*://)([^\s/?#@]*@)?([^\s?#]*)([?#]\S*)?")


def text_for_logs(text: str) -> str:
    """`text` in one line, its URIs without userinfo, query and fragment, which may hold passwords and tokens."""
    return _URI.sub(r"\1\3", " ".join(text.split()))
