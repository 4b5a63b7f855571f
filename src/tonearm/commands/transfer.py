"""`tonearm export` and `import`: saves the players of a node as a JSON file, and restores them."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tonearm.client import ApiError, ConnectError, Node, NodeFailed
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
        if file.exists() and not file.is_file():  # a device or a pipe
            file.write_text(f"{text}\n", encoding="utf-8")
        else:
            _replace(Path(os.path.realpath(file)), f"{text}\n")
    except OSError as error:
        return complain(f"{file} cannot be written: {error.strerror}.")
    sys.stderr.write(f"Players written to {file}: {len(state['players'])}.\n")
    return ExitCode.OK


def _replace(file: Path, text: str) -> None:
    """Writes `text` to `file`. An old file, such as an older backup, is kept until all of `text` is on the disk."""
    # Only its owner may read it, since links of sources may hold what nobody else should know. Its name is new, so that
    # nobody else who may write in that folder has put a link there.
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.")
    new = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def import_players(player: str | None, file: Path, at: NodeOptions) -> int:
    """Makes the node take over the players in `file`, or one of them."""
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
        done = 0
        for player_id, record in wanted.items():
            try:
                await _put(node, player_id, record)
                done += 1
            except ApiError as error:
                complain(f"Player {player_id}: {error.message}")
            except ConnectError as error:
                told = f"{error.message} {done} of {len(wanted)} players were imported."
                raise ConnectError(error.cause, told) from error
        sys.stderr.write(f"{done} of {len(wanted)} players were imported into {at.url}.\n")
        if reason := await _degradation(node):
            return complain(f"The node is degraded and may lose them at a restart. {reason}")
        return ExitCode.OK if done == len(wanted) else ExitCode.FAILED

    return run(at, work, timeout_s=_PATIENCE_S)


async def _degradation(node: Node) -> str:
    """Why a restart of the node may lose players; empty when it keeps them. Says so when the node should get no more
    players now, which these have no part in."""
    try:
        return str((await node.request("GET", "/readyz")).get("reason", ""))
    except NodeFailed as error:
        sys.stderr.write(f"The node is not ready: {error.message}\n")
        state = (await node.request("GET", "/v0/stats")).get("state", {})
        return "Its log says why." if state.get("degraded") else ""


async def _put(node: Node, player_id: str, record: Any) -> None:
    """Sends one player. Waits as long as the node demands, because its `server.requests_per_second` may be low."""
    while True:
        try:
            await node.request("PUT", _state_path(player_id), record)
        except ApiError as error:
            if error.retry_after_s is None:
                raise
            await asyncio.sleep(error.retry_after_s)
        else:
            return


def _state_path(player_id: str) -> str:
    return f"/v0/players/{quote(player_id, safe='')}/state"
