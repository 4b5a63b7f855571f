"""Three commands to paste into another terminal, for a first look at a node that runs."""

import json
import shlex
import sys
from importlib import resources
from pathlib import Path
from typing import Final

PASSWORD_VARIABLE: Final = "TONEARM_SERVER__PASSWORD"  # noqa: S105 - the variable's name
_PLAYER: Final = "demo"


def node_url(host: str, port: int) -> str:
    """How a client on this machine reaches a node that listens on `host`."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def commands_to_try(url: str, *, has_password: bool) -> str:
    """Text for a terminal: create a player on the bundled clip, listen to it, skip.

    With a password the commands take it from the environment, so that it is not shown.
    """
    clip = str(resources.files("tonearm") / "clips" / "welcome.opus")
    curl = 'curl -H "Authorization: $' + PASSWORD_VARIABLE + '"' if has_password else "curl"
    tonearm = shlex.quote(str(Path(sys.argv[0]).absolute()))
    body = shlex.quote(json.dumps({"id": _PLAYER, "uri": clip}))
    password_line = f"  (first: export {PASSWORD_VARIABLE}=..., the password of the node)\n" if has_password else ""
    return f"""
tonearm listens on {url}. To try it, paste into another terminal:
{password_line}
  {curl} -d {body} {url}/v0/players
  {tonearm} listen {_PLAYER} --url {url}
  {curl} -X POST {url}/v0/players/{_PLAYER}/skip

The clip lasts 25 s; {curl} -X POST {url}/v0/players/{_PLAYER}/play plays it again.
To hear it, open {url}/v0/players/{_PLAYER}/stream.wav in a player such as mpv, VLC or ffplay.
Ctrl-C ends the node.

"""
