"""Choosing between plain text and JSON by the Accept header."""

import re
from collections.abc import Sequence
from typing import Final

_WEIGHT: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def prefers_json(accept_headers: Sequence[str]) -> bool:
    """True when `application/json` is weighed above both `text/plain` and `*/*`.

    Weights are those of RFC 9110, section 12.5.1: `q` from 0 to 1, 1 when it is left out, and the more exact range
    counts for a type. What is not mentioned weighs nothing; a range that cannot be read is passed over.
    """
    weights = _weights(accept_headers)
    json_weight = weights.get("application/json", weights.get("application/*", 0.0))
    text_weight = weights.get("text/plain", weights.get("text/*", 0.0))
    return json_weight > text_weight and json_weight > weights.get("*/*", 0.0)


def _weights(accept_headers: Sequence[str]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for entry in ",".join(accept_headers).split(","):
        media_range, *parameters = (part.strip().lower() for part in entry.split(";"))
        weight_text = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        if _WEIGHT.fullmatch(weight_text):
            weights[media_range] = max(weights.get(media_range, 0.0), float(weight_text))
    return weights
