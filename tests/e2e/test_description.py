"""What the node says of its interface is so: the examples work, and what is answered is described."""

import base64
import hashlib
import re
from pathlib import Path
from typing import Any, Final

from tests.support.audio_files import tone, wav
from tests.support.described import described_answer
from tests.support.e2e_players import create, enqueue
from tests.support.http_client import WEBSOCKET_HEADERS, Answer, Headers, connected, request
from tests.support.running_node import RunningNode, running_node

# These have no end, or are sockets: their heads are enough here.
BYTES: Final = wav(tone(440, 0.2))
ENDLESS: Final = re.compile(r"/(ws|events|stream\.(wav|ogg|mp3))$")


async def documents(node: RunningNode) -> tuple[Any, Any]:
    answers = [await node.request("GET", path) for path in ("/openapi.json", "/asyncapi.json")]
    assert {(answer.status, answer.header("Content-Type")) for answer in answers} == {(200, "application/json")}
    openapi, asyncapi = (answer.json() for answer in answers)
    return openapi, asyncapi


async def test_every_example_works(tmp_path: Path) -> None:
    (tmp_path / "welcome.opus").write_bytes(wav(tone(440, 22.0)))  # what a file is decides what is in it
    (tmp_path / "list.m3u").write_text("welcome.opus\n")
    # The player waits for a listener, so that it is where the examples want it.
    config = f'[player]\nfirst_listener_wait_ms = 60000\n[library]\nuploads = "{tmp_path}"\n'
    async with running_node(tmp_path, config) as node:
        openapi, _ = await documents(node)
        for path, methods in openapi["paths"].items():
            for method, operation in methods.items():
                for sent, target, headers, body in examples(path, operation):
                    names = await arranged(node, path, method)
                    answer = await asked(node, method.upper(), filled(target, names), headers, filled_body(body, names))
                    assert answer.status < 400 or answer.json()["code"] in EXPECTED.get(path, ()), (
                        method,
                        path,
                        sent,
                        answer.body,
                    )
                    described_answer(openapi, operation, answer)


# The resolver and voice are off, the clip has no picture, and a new player has no track before its first.
EXPECTED: Final = {
    "/v0/search": ("resolver_disabled",),
    "/v0/resolve": ("resolver_disabled",),
    "/v0/players/{player_id}/artwork": ("no_artwork",),
    "/v0/players/{player_id}/previous": ("no_previous",),
    "/v0/players/{player_id}/voice": ("voice_disabled",),
}


def examples(path: str, operation: Any) -> list[tuple[str, str, Headers, Any]]:
    """Requests with every parameter by itself, with all of them, and with every body: a name, target, headers, body."""
    given = [parameter for parameter in operation["parameters"] if parameter["in"] != "path"]
    # On /ws a bitrate is one of Opus, which has to be asked for.
    required = [parameter for parameter in given if parameter["required"] or parameter["name"] == "format"]
    found: list[tuple[str, str, Headers, Any]] = []
    for chosen in (required, *([*required, parameter] for parameter in given if parameter not in required), given):
        query = "&".join(
            f"{parameter['name']}={shown(parameter['example'])}" for parameter in chosen if parameter["in"] == "query"
        )
        headers = tuple(
            (parameter["name"], str(parameter["example"])) for parameter in chosen if parameter["in"] == "header"
        )
        found.append((query, f"{path}?{query}" if query else path, headers, None))
    content = operation.get("requestBody", {"content": {}})["content"]
    if "application/octet-stream" in content:
        return [(*one[:3], BYTES) for one in found]
    if content:
        bodies = content["application/json"]["examples"]
        found = [(title, path, (), example["value"]) for title, example in bodies.items()]
    return found


def shown(example: object) -> str:
    text = str(example).lower() if isinstance(example, bool) else str(example)
    return text.replace("+", "%2B").replace(" ", "%20")


async def arranged(node: RunningNode, path: str, method: str) -> dict[str, str]:
    """A new player `tour`, with a waiting track and an overlay; by the names that paths have for them."""
    for player in (await node.request("GET", "/v0/players")).json():
        await node.request("DELETE", f"/v0/players/{player['id']}")
    if path == "/v0/players" and method == "post":
        return {}
    await create(node, "tour", "welcome.opus")
    names = {"player_id": "tour", "track_id": await enqueue(node, "tour", "welcome.opus")}
    answer = await node.request("POST", "/v0/players/tour/overlays", {"uri": "welcome.opus"})
    sound = await request(node.port, "POST", "/v0/sounds", body=BYTES)
    sound_id = sound.json()["uri"].removeprefix("sound:")
    return {**names, "overlay_id": answer.json()["overlayId"], "sound_id": sound_id}


def filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def filled_body(body: Any, names: dict[str, str]) -> Any:
    if isinstance(body, dict):
        return {name: filled_body(value, names) for name, value in body.items()}
    return filled(body, names) if isinstance(body, str) else body


async def asked(node: RunningNode, method: str, target: str, headers: Headers, body: Any) -> Answer:
    path = target.partition("?")[0]
    if body is BYTES:
        return await request(node.port, method, target, headers=headers, body=BYTES)
    if not ENDLESS.search(path):
        return await node.request(method, target, body, headers=headers)
    if path.endswith(("/ws", "/events")):
        headers = (*headers, *WEBSOCKET_HEADERS)
        target = re.sub(r"since=[^&]*", "since=0", target)
    async with connected(node.port) as connection:
        connection.send_request(method, target, headers)
        return await connection.read_head()


async def test_the_page_runs_under_its_own_policy(node: RunningNode) -> None:
    answer = await node.request("GET", "/docs", headers=(("Accept", "text/html"),))
    page, policy = answer.body.decode(), answer.header("Content-Security-Policy") or ""
    assert (answer.status, answer.header("Content-Type")) == (200, "text/html; charset=utf-8")
    assert policy.startswith("default-src 'none';")
    for kind in ("style", "script"):
        parts = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts]
        assert [f"'sha256-{one}'" for one in hashes] == re.findall(r"'sha256-[^']+'", policy.split(f"{kind}-src")[1])[
            :1
        ]
