"""`tonearm export` and `import`: players of a node as a file of JSON, and back."""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tonearm.client import ApiError, Node
from tonearm.commands.running import NodeOptions, complain, run, say
from tonearm.process import ExitCode

_PATIENCE_S: Final = 60.0  # thousands of players with long queues are some megabytes


def export_players(player: str | None, file: Path | None, at: NodeOptions) -> int:
    """Writes all players, or one, to `file` (None: stdout)."""

    async def work(node: Node) -> int:
        if player is None:
            state = await node.request("GET", "/v0/state")
        else:
            record = await node.request("GET", _state_path(player))
            state = {"version": record["version"], "players": [record]}
        return _write(state, file)

    return run(at, work, timeout_s=_PATIENCE_S)


def _write(state: dict[str, Any], file: Path | None) -> int:
    text = json.dumps(state, indent=1)
    if file is None:
        say(text)
        return ExitCode.OK
    try:
        file.touch(0o600)
        with file.open("w", encoding="utf-8") as out:
            if file.is_file():  # also one that was there; a device or a pipe stays as it is
                os.fchmod(out.fileno(), 0o600)  # links of sources may hold what nobody else should know
            out.write(f"{text}\n")
    except OSError as error:
        return complain(f"{file} cannot be written: {error.strerror}.")
    sys.stderr.write(f"Players written to {file}: {len(state['players'])}.\n")
    return ExitCode.OK


def import_players(player: str | None, file: Path, at: NodeOptions) -> int:
    """Has the node take over the players in `file`, or one of them."""
    try:
        records = json.loads(file.read_text(encoding="utf-8"))["players"]
        wanted = {str(record["id"]): record for record in records if player in (None, record["id"])}
    except OSError as error:
        return complain(f"{file} cannot be read: {error.strerror}.")
    except (ValueError, KeyError, TypeError):
        return complain(f"{file} is not what `tonearm export` writes.")
    if player is not None and not wanted:
        return complain(f"There is no player {player} in {file}.")

    async def work(node: Node) -> int:
        failed = 0
        for player_id, record in wanted.items():
            try:
                await node.request("PUT", _state_path(player_id), record)
            except ApiError as error:
                failed += 1
                complain(f"Player {player_id}: {error.message}")
        sys.stderr.write(f"{len(wanted) - failed} of {len(wanted)} players are on {at.url}.\n")
        return ExitCode.FAILED if failed else ExitCode.OK

    return run(at, work, timeout_s=_PATIENCE_S)


def _state_path(player_id: str) -> str:
    return f"/v0/players/{quote(player_id, safe='')}/state"
