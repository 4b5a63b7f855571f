"""Who gets in, and in which order a request is checked."""

from pathlib import Path

from tests.support.audio_files import music, wav
from tests.support.e2e_players import PATIENT, create, refusal, state, until_state
from tests.support.http_client import WEBSOCKET_HEADERS, Answer, Headers, request, websocket
from tests.support.running_node import RunningNode, running_node

PASSWORD = "sésame öffne dich"

# Every route of the interface, parts 1 and 3: what it answers to the right password, a player `p` being there.
ROUTES: list[tuple[str, str, bytes | None, int]] = [
    ("POST", "/v0/players", b'{"id": "q", "uri": "x.wav"}', 201),
    ("GET", "/v0/players", None, 200),
    ("GET", "/v0/players/p", None, 200),
    ("POST", "/v0/players/p/play", None, 204),
    ("POST", "/v0/players/p/pause", None, 204),
    ("POST", "/v0/players/p/skip", None, 204),
    ("POST", "/v0/players/p/queue", b'{"uri": "x.wav", "metadata": {}}', 201),
    ("GET", "/v0/players/p/queue", None, 200),
    ("PATCH", "/v0/players/p/loop", b'{"mode": "queue"}', 204),
    ("PATCH", "/v0/players/p/filters", b'{"volume": 2}', 204),
    ("GET", "/v0/players/p/filters", None, 200),
    ("PATCH", "/v0/players/p/metadata", b'{"value": 1}', 204),
    ("GET", "/v0/resolve?url=http://example.org/", None, 400),
    ("GET", "/v0/loadtracks?identifier=x", None, 200),
    ("GET", "/v0/loadtracks", None, 400),
    ("GET", "/v0/decodetrack?encodedTrack=L2E=", None, 200),
    ("POST", "/v0/decodetracks", b"[]", 200),
    ("GET", "/info", None, 200),
    ("GET", "/version", None, 200),
    ("GET", "/openapi.json", None, 200),
    ("GET", "/asyncapi.json", None, 200),
    ("GET", "/docs", None, 200),
    ("HEAD", "/v0/players/p/stream.wav", None, 200),
    ("GET", "/v0/players/p/ws", None, 400),
    ("GET", "/v0/players/p/events", None, 400),
    ("GET", "/v0/nothing", None, 404),
    ("PUT", "/v0/players", None, 405),
    ("DELETE", "/v0/players/p", None, 204),
]
NO_ENTRY: list[Headers] = [
    (),
    (("Authorization", ""),),
    (("Authorization", "wrong"),),
    (("Authorization", f"Bearer {PASSWORD}".encode()),),
    (("Authorization", PASSWORD.encode()), ("Authorization", PASSWORD.encode())),
    (("Authorization", PASSWORD.upper().encode()),),
    (("Proxy-Authorization", PASSWORD.encode()),),
]


async def test_a_password_is_asked_for_everywhere(tmp_path: Path) -> None:
    async with running_node(tmp_path, f'[server]\npassword = "{PASSWORD}"\n{PATIENT}') as node:
        right = (("Authorization", PASSWORD.encode()),)
        new = b'{"id": "p", "uri": "x.wav"}'
        assert (await request(node.port, "POST", "/v0/players", headers=right, body=new)).status == 201
        for number, (method, target, body, _) in enumerate(ROUTES):
            upgrade = WEBSOCKET_HEADERS if target.endswith(("/ws", "/events")) else ()
            for headers in ((), NO_ENTRY[number % len(NO_ENTRY)]):
                answer = await request(node.port, method, target, headers=(*headers, *upgrade), body=body)
                assert answer.status == 401, (method, target, headers)
                if method != "HEAD":
                    assert refusal(answer) == (401, "unauthorized")
        for socket in ("ws", "events"):
            async with websocket(node.port, f"/v0/players/p/{socket}", headers=right):
                pass
        # In both encodings that clients use for text in headers, with the blanks that HTTP allows.
        for number, (method, target, body, status) in enumerate(ROUTES):
            encoding = ("utf-8", "latin-1")[number % 2]
            headers = (("authorization", b"  " + PASSWORD.encode(encoding) + b" \t"),)
            answer = await request(node.port, method, target, headers=headers, body=body)
            assert answer.status == status, (method, target, answer.body)
            assert status in (204, 200) or method == "HEAD" or answer.header("Content-Type") == "application/json"
    assert PASSWORD not in "".join(node.log)


async def test_pages_of_other_sites_are_refused(node: RunningNode, tmp_path: Path) -> None:
    async def ask(node: RunningNode, host: str, origin: str | None, **more: str) -> int:
        own = (("Origin", origin),) if origin is not None else ()
        headers: Headers = (("Host", host), *own, *more.items())
        status = (await request(node.port, "GET", "/v0/players", headers=headers)).status
        upgrade = await request(node.port, "GET", "/v0/players/p/ws", headers=(*headers, *WEBSOCKET_HEADERS))
        assert upgrade.status == {200: 404}.get(status, status)
        return status

    for host, origin, status in (
        (f"127.0.0.1:{node.port}", None, 200),
        # No browser's page, or one whose name leads here.
        ("radio.example", None, 403),
        (f"127.0.0.1:{node.port}", f"http://127.0.0.1:{node.port}", 200),
        (f"localhost:{node.port}", f"http://localhost:{node.port}", 200),
        (f"[::1]:{node.port}", f"http://[::1]:{node.port}", 200),
        (f"127.0.0.1:{node.port}", "http://evil.example", 403),
        (f"127.0.0.1:{node.port}", f"http://127.0.0.1:{node.port + 1}", 403),
        (f"127.0.0.1:{node.port}", "null", 403),
        (f"127.0.0.1:{node.port}", f"http://localhost:{node.port}", 403),
        # A name of that site that leads here.
        (f"evil.example:{node.port}", f"http://evil.example:{node.port}", 403),
    ):
        assert await ask(node, host, origin) == status, (host, origin)
    config = '[server]\nhosts = ["Radio.example"]\nallowed_origins = ["https://player.example"]\n'
    async with running_node(tmp_path, config) as named:
        assert await ask(named, "radio.example", None) == 200
        assert await ask(named, "radio.example", "https://radio.example") == 200
        assert await ask(named, "radio.example", "https://player.example") == 200
        assert await ask(named, "radio.example", "https://other.example") == 403
        assert await ask(named, "radio.example", None, **{"Sec-Fetch-Site": "same-site"}) == 403
        preflight: Headers = (("Origin", "https://player.example"), ("Access-Control-Request-Method", "POST"))
        assert (await named.request("OPTIONS", "/v0/players", headers=preflight)).status == 204
    async with running_node(tmp_path, '[server]\npassword = "x"\n') as locked:
        assert await ask(locked, "radio.example", None, Authorization="x") == 200
        assert await ask(locked, "radio.example", "http://radio.example", Authorization="x") == 200
        assert await ask(locked, "radio.example", "http://evil.example", Authorization="x") == 403


async def test_the_order_of_checks(tmp_path: Path) -> None:
    config = '[server]\npassword = "x"\n[sources]\nblocked = ["blocked"]\n'
    foreign = ("Origin", "http://evil.example")
    too_large = b" " * (1024 * 1024 + 1)

    async with running_node(tmp_path, config) as node:
        let_in = ("Authorization", "x")

        async def ask(method: str, target: str, body: bytes | None = None, *headers: tuple[str, str]) -> Answer:
            return await request(node.port, method, target, headers=headers, body=body)

        assert (await ask("POST", "/v0/players", b'{"id": "p", "uri": "a.wav"}', let_in)).status == 201
        for wanted, answer in (
            ((401, "unauthorized"), await ask("GET", "/nothing", None, foreign)),
            ((403, "foreign_origin"), await ask("GET", "/nothing", None, let_in, foreign)),
            ((404, "not_found"), await ask("PUT", "/nothing", b"{", let_in)),
            ((404, "not_found"), await ask("GET", "/v0/players/", None, let_in)),
            ((405, "method_not_allowed"), await ask("PUT", "/v0/players/none/queue", b"{", let_in)),
            ((404, "player_not_found"), await ask("POST", "/v0/players/none/queue", too_large, let_in)),
            ((404, "player_not_found"), await ask("PATCH", "/v0/players/none/filters", b"{", let_in)),
            ((413, "body_too_large"), await ask("POST", "/v0/players", too_large, let_in)),
            ((400, "bad_request"), await ask("POST", "/v0/players", b'{"id": "p"}', let_in)),
            ((400, "bad_request"), await ask("POST", "/v0/players", b'{"id": "p", "uri": "ftp://x/"}', let_in)),
            ((400, "bad_request"), await ask("POST", "/v0/players", b'{"id": "a b", "uri": "blocked"}', let_in)),
            ((409, "player_exists"), await ask("POST", "/v0/players", b'{"id": "p", "uri": "blocked"}', let_in)),
            ((403, "source_blocked"), await ask("POST", "/v0/players", b'{"id": "q", "uri": "blocked"}', let_in)),
        ):
            assert refusal(answer) == wanted
        assert len((await ask("GET", "/v0/players", None, let_in)).json()) == 1


async def test_info_is_of_the_build_and_not_of_the_moment(node: RunningNode, tmp_path: Path) -> None:
    seen = []
    async with running_node(tmp_path) as just_started:
        for asked in (node, just_started):
            seen += [(await asked.request("GET", "/info")).json() for _ in range(2)]
            plain = await asked.request("GET", "/version")
            assert (plain.header("Content-Type") or "").startswith("text/plain")
            assert plain.body.decode() == seen[0]["version"]
            as_json = await asked.request("GET", "/version", headers=(("Accept", "application/json"),))
            assert as_json.json() == {"version": seen[0]["version"]}
    assert seen == [seen[0]] * 4
    assert set(seen[0]) == {"version", "buildTime"}
    assert [part.isdigit() for part in seen[0]["version"].split(".")] == [True] * 3
    assert type(seen[0]["buildTime"]) is int
    assert seen[0]["buildTime"] > 1_600_000_000_000  # milliseconds


async def test_the_whole_life_of_a_player(node: RunningNode) -> None:
    (node.folder / "song.wav").write_bytes(wav(music(2.0)))
    assert (await node.request("GET", "/v0/players")).json() == []
    await create(node, "p", "song.wav", metadata={"guild": 1})
    await until_state(node, "p", lambda now: now["source"] is not None)  # it is opened
    (listed,) = (await node.request("GET", "/v0/players")).json()
    now = await state(node, "p")
    assert {**listed, "track": 0, "position": 0} == {**now, "track": 0, "position": 0}
    assert set(now) >= {"id", "track", "state", "paused", "position", "volume", "eq", "loop", "queueLength"}
    assert set(now) >= {"metadata", "listeners", "seq", "quality"}
    assert refusal(await node.request("POST", "/v0/players", {"id": "p", "uri": "song.wav"})) == (
        409,
        "player_exists",
    )
    deleted = await node.request("DELETE", "/v0/players/p")
    assert (deleted.status, deleted.body) == (204, b"")
    for method, rest in (("DELETE", ""), ("GET", ""), ("POST", "/play"), ("GET", "/queue"), ("GET", "/ws")):
        assert refusal(await node.request(method, f"/v0/players/p{rest}")) == (404, "player_not_found")
    await create(node, "p", "song.wav")  # the id is free again
