"""The commands `tonearm export` and `tonearm import`: players of a node as a file of JSON, and back."""

import json
import sys
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from tonearm import exit_codes
from tonearm.core.printable import one_line

_PATIENCE_S: Final = 60.0
_SHOWN_CHARACTERS: Final = 300


class TransferError(Exception):
    """A request failed; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """Where the node is; `password` is empty without one."""

    url: str
    password: str

    def ask(self, method: str, path: str, value: Any = None) -> Any:
        """The JSON of the answer. Raises `TransferError`."""
        headers = {"Authorization": self.password} if self.password else {}
        body = None if value is None else json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
        try:
            request = Request(self.url.rstrip("/") + path, body, headers, method=method)  # noqa: S310 - the user's own
            with build_opener(ProxyHandler({})).open(request, timeout=_PATIENCE_S) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise TransferError(_refusal(error)) from error
        except (URLError, OSError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise TransferError(f"No node can be reached at {self.url} ({reason}); is it running?") from error
        except ValueError as error:
            raise TransferError(
                f"What answers at {self.url} is no tonearm node; it looks like http://127.0.0.1:2333"
            ) from error


def export_players(node: NodeAddress, player: str | None, file: Path | None) -> int:
    """Writes all players, or one, to `file` (None: stdout). Returns the exit code."""
    try:
        if player is None:
            state = node.ask("GET", "/v0/state")
        else:
            record = node.ask("GET", f"/v0/players/{quote(player, safe='')}/state")
            state = {"version": record["version"], "players": [record]}
    except TransferError as error:
        return _fail(str(error))
    text = json.dumps(state, indent=1) + "\n"
    if file is None:
        sys.stdout.write(text)
        return exit_codes.OK
    try:
        # Only for the owner: links of sources may hold what nobody else should know.
        file.touch(0o600)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        return _fail(f"{file} cannot be written: {error.strerror}")
    sys.stderr.write(f"{len(state['players'])} players written to {file}.\n")
    return exit_codes.OK


def import_players(node: NodeAddress, player: str | None, file: Path) -> int:
    """Has the node take over the players in `file`, or one of them. Returns the exit code."""
    try:
        records = json.loads(file.read_text(encoding="utf-8"))["players"]
        wanted = {record["id"]: record for record in records if player in (None, record["id"])}
    except OSError as error:
        return _fail(f"{file} cannot be read: {error.strerror}")
    except (ValueError, KeyError, TypeError):
        return _fail(f"{file} is not what `tonearm export` writes")
    if player is not None and not wanted:
        return _fail(f"There is no player {player!r} in {file}.")
    failed = 0
    for player_id, record in wanted.items():
        try:
            node.ask("PUT", f"/v0/players/{quote(player_id, safe='')}/state", record)
        except TransferError as error:
            failed += 1
            _fail(f"player {player_id}: {error}")
    sys.stderr.write(f"{len(wanted) - failed} of {len(wanted)} players are on {node.url}.\n")
    return exit_codes.FAILED if failed else exit_codes.OK


def _refusal(error: HTTPError) -> str:
    with error:
        if error.code == HTTPStatus.UNAUTHORIZED:
            return "The node wants its password: use --password or set TONEARM_SERVER__PASSWORD."
        try:
            return one_line(json.load(error)["message"])[:_SHOWN_CHARACTERS]
        except (ValueError, KeyError, TypeError):
            return f"The answer was {error.code}; is it a tonearm node?"


def _fail(sentence: str) -> int:
    sys.stderr.write(f"tonearm: {sentence}\n")
    return exit_codes.FAILED
