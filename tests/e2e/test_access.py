"""In which order a request is checked."""

from pathlib import Path

from tests.support.e2e_players import refusal
from tests.support.http_client import Answer, request
from tests.support.running_node import running_node


async def test_the_order_of_checks(tmp_path: Path) -> None:
    config = '[server]\npassword = "x"\n[sources]\nblocked = ["blocked"]\n[player]\nmax_players = 1\n'
    foreign = ("Origin", "http://evil.example")
    too_large = b" " * (1024 * 1024 + 1)
    queue, overlays = "/v0/players/p/queue", "/v0/players/p/overlays"
    blocked, wrong = b'{"uri": "blocked"}', b'{"uri": "ftp://x/"}'

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
            ((429, "limit_reached"), await ask("POST", "/v0/players", b'{"id": "q", "uri": "a.wav"}', let_in)),
            ((400, "bad_request"), await ask("POST", queue, b'{"uri": "blocked", "index": -1}', let_in)),
            ((400, "bad_request"), await ask("POST", queue, b'{"tracks": [{"uri": "blocked"}], "index": -1}', let_in)),
            ((400, "bad_request"), await ask("POST", queue, b'{"tracks": [%b, %b]}' % (blocked, wrong), let_in)),
            ((403, "source_blocked"), await ask("POST", queue, b'{"tracks": [%b]}' % blocked, let_in)),
            ((400, "bad_request"), await ask("POST", overlays, b'{"overlays": [%b, %b]}' % (blocked, wrong), let_in)),
            ((403, "source_blocked"), await ask("POST", overlays, b'{"overlays": [%b]}' % blocked, let_in)),
        ):
            assert refusal(answer) == wanted
        assert len((await ask("GET", "/v0/players", None, let_in)).json()) == 1
