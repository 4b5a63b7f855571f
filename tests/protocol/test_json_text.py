"""How values are written as JSON."""

import json

from tonearm.core.metadata import Json
from tonearm.protocol.wire_model import json_bytes, json_text


def test_it_is_compact_and_always_utf_8() -> None:
    rows: list[tuple[Json, str]] = [
        ({"a": [1, 2.5, True, None, "ä😀"], "b": {}}, '{"a":[1,2.5,true,null,"ä😀"],"b":{}}'),
        ({"\ud800": ["\udfff"], "ä": 1}, '{"\\ud800":["\\udfff"],"\\u00e4":1}'),
        (2**70, "1180591620717411303424"),
        ('\x00\u2028"\\', '"\\u0000\u2028\\"\\\\"'),
    ]
    for value, text in rows:
        assert json_text(value) == text.encode()
        assert json.loads(json_text(value)) == value
        assert json_bytes(value) == len(text.encode())
