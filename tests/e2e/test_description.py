"""What the node says of its interface is so: the examples work, and what is answered is described."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.support.audio_files import tone, wav
from tests.support.described import described_answer
from tests.support.e2e_players import create, enqueue
from tests.support.http_client import WEBSOCKET_HEADERS, Answer, Headers, connected, request
from tests.support.running_node import RunningNode, running_node

# These have no end, or are sockets: their heads are enough here.
BYTES: Final = wav(tone(440, 0.2))
ENDLESS: Final = re.compile(r"/(ws|events|stream\.(wav|ogg|mp3))$")


# The resolver and voice are off, the clip has no picture, and a new player has no track before its first.
EXPECTED: Final = {
    "/v0/search": "resolver_disabled",
    "/v0/resolve": "resolver_disabled",
    "/v0/players/{player_id}/artwork": "no_artwork",
    "/v0/players/{player_id}/previous": "no_previous",
    "/v0/players/{player_id}/voice": "voice_disabled",
}


async def test_every_example_works(tmp_path: Path) -> None:
    (tmp_path / "welcome.opus").write_bytes(wav(tone(440, 22.0)))  # what a file is decides what is in it
    (tmp_path / "list.m3u").write_text("welcome.opus\n")
    # The player waits for a listener, so that it is where the examples want it.
    config = f'[player]\nfirst_listener_wait_ms = 60000\n[library]\nuploads = "{tmp_path}"\n'
    async with running_node(tmp_path, config) as node:
        openapi, _ = [(await node.request("GET", path)).json() for path in ("/openapi.json", "/asyncapi.json")]
        for path, methods in openapi["paths"].items():
            for method, operation in methods.items():
                names: dict[str, str] = {}
                for query, headers, text in examples(operation):
                    if method != "get" or not names:
                        names = await arranged(node, path, method)
                    body = BYTES if text is None else filled(text, names).encode()
                    answer = await asked(node, method.upper(), filled(path, names), query, headers, body)
                    is_right = answer.status < 400 or answer.json()["code"] == EXPECTED.get(path)
                    assert is_right, (method, path, query, text, answer.body)
                    described_answer(openapi, operation, answer)


def examples(operation: Any) -> list[tuple[str, Headers, str | None]]:
    """Requests with every parameter by itself, with all of them, and with every body: a query, headers, and a body as
    text, or None where it is a sound."""
    given = [parameter for parameter in operation["parameters"] if parameter["in"] != "path"]
    # On /ws a bitrate is one of Opus, which has to be asked for.
    required = [parameter for parameter in given if parameter["required"] or parameter["name"] == "format"]
    content = operation.get("requestBody", {"content": {}})["content"]
    if "application/json" in content:
        return [("", (), json.dumps(one["value"])) for one in content["application/json"]["examples"].values()]
    found: list[tuple[str, Headers, str | None]] = []
    for chosen in (required, *([*required, parameter] for parameter in given if parameter not in required), given):
        texts = {
            (parameter["in"], parameter["name"]): json.dumps(parameter["example"], ensure_ascii=False).strip('"')
            for parameter in chosen
        }
        query = "&".join(f"{name}={quote(text)}" for (kind, name), text in texts.items() if kind == "query")
        headers = tuple((name, text) for (kind, name), text in texts.items() if kind == "header")
        found.append((f"?{query}" if query else "", headers, None if content else ""))
    return found


async def arranged(node: RunningNode, path: str, method: str) -> dict[str, str]:
    """A new player `tour`, with a waiting track and an overlay; by the names that paths have for them."""
    for player in (await node.request("GET", "/v0/players")).json():
        await node.request("DELETE", f"/v0/players/{player['id']}")
    if path == "/v0/players" and method == "post":
        return {}
    await create(node, "tour", "welcome.opus")
    track_id = await enqueue(node, "tour", "welcome.opus")
    overlay = (await node.request("POST", "/v0/players/tour/overlays", {"uri": "welcome.opus"})).json()
    sound = (await request(node.port, "POST", "/v0/sounds", body=BYTES)).json()
    names = {"player_id": "tour", "track_id": track_id, "overlay_id": overlay["overlayId"]}
    return {**names, "sound_id": sound["uri"].removeprefix("sound:")}


def filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


async def asked(node: RunningNode, method: str, path: str, query: str, headers: Headers, body: bytes) -> Answer:
    if not ENDLESS.search(path):
        return await request(node.port, method, path + query, headers=headers, body=body or None)
    if path.endswith(("/ws", "/events")):
        headers = (*headers, *WEBSOCKET_HEADERS)
        query = re.sub(r"since=[^&]*", "since=0", query)
    async with connected(node.port) as connection:
        connection.send_request(method, path + query, headers)
        return await connection.read_head()


async def test_the_page_runs_under_its_own_policy(node: RunningNode) -> None:
    answer = await node.request("GET", "/docs", headers=(("Accept", "text/html"),))
    page, policy = answer.body.decode(), answer.header("Content-Security-Policy") or ""
    assert (answer.status, answer.header("Content-Type")) == (200, "text/html; charset=utf-8")
    assert policy.startswith("default-src 'none';")
    for kind in ("style", "script"):
        (part,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert re.findall(r"'sha256-[^']+'", policy.split(f"{kind}-src")[1])[:1] == [f"'sha256-{digest}'"]
