"""Whatever is sent to any path, the answer is one that the description foretells, and never a failure of the node.

`make test` sends a few requests to each path, `make fuzz` as many as one likes.
"""

import contextlib
import json
import os
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings, strategies
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from tests.support.audio_files import tone, wav
from tests.support.described import strict
from tests.support.edge import all_operations
from tests.support.running_node import shared_node
from tonearm import VERSION
from tonearm.description.openapi import openapi_document
from tonearm.server.routes_node import status_of_code

EXAMPLES: Final = int(os.environ.get("FUZZ_REQUESTS") or 4)  # to each path
CHECKS: Final = (
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
)
# Nothing is fetched from anywhere, and a player that nobody listens to goes on at once.
CONFIG: Final = "[player]\nfirst_listener_wait_ms = 0\n[sources]\nprivate_networks = false\nconnect_timeout_s = 0.2\n"
ENDLESS: Final = re.compile(r"/stream\.(wav|ogg|mp3)$")  # a client of this kind would read them to their end


@pytest.mark.timeout(86400 if "FUZZ_REQUESTS" in os.environ else 120)
def test_no_answer_is_a_surprise(tmp_path: Path) -> None:
    document: Any = openapi_document(VERSION, all_operations(of_cluster=False), status_of_code())
    document["components"]["schemas"] = strict(document["components"]["schemas"])
    schema = schemathesis.openapi.from_dict(document)
    (tmp_path / "song.wav").write_bytes(wav(tone(440, 20.0)))
    with shared_node(tmp_path, CONFIG) as node:
        for found in schema.get_all_operations():
            operation: Any = found.ok()  # type: ignore[union-attr]  # the other kind would be a mistake of ours
            if not ENDLESS.search(operation.path) and not operation.path.startswith("/dashboard"):  # nobody can log in
                send_some(operation, node.url)


def send_some(operation: Any, url: str) -> None:
    @settings(
        max_examples=EXAMPLES,
        phases=(Phase.generate,),
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), is_there=strategies.booleans())
    def send(case: Any, is_there: bool) -> None:
        if is_there and "player_id" in case.path_parameters:
            case.path_parameters["player_id"] = "tour"
            new_player = urllib.request.Request(
                f"{url}/v0/players", json.dumps({"id": "tour", "uri": "song.wav"}).encode()
            )
            with contextlib.suppress(urllib.error.HTTPError):  # it is there
                urllib.request.urlopen(new_player).close()
        response = case.call(base_url=url)
        case.validate_response(response, checks=CHECKS)

    send()
