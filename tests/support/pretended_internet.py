"""A node that believes in an internet of the test's own: names that answer as told, and a public address on loopback.

internet = PretendedInternet(tmp_path / "internet")
internet.name("radio.example", [PUBLIC], ["127.0.0.1"])     # the second lookup answers otherwise
async with MediaServer(host=PUBLIC) as server, running_node(folder, variables=internet.variables) as node: ...

Nothing of the node is replaced. Python itself is changed in its process, below name lookup and below the table of
special addresses, by the module `sitecustomize` that Python imports at its start.
"""

import json
from pathlib import Path
from typing import Final

from tests.support.environment import python_path

# An address of loopback that passes for one of the open internet.
PUBLIC: Final = "127.0.0.77"

_SITECUSTOMIZE: Final = """
import ipaddress
import json
import pathlib
import socket

FOLDER = pathlib.Path(__file__).parent
system_getaddrinfo = socket.getaddrinfo
system_is_global = ipaddress.IPv4Address.is_global


def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    answers, lookups = FOLDER / f"{host}.json", FOLDER / f"{host}.lookups"
    if not answers.exists():
        return system_getaddrinfo(host, port, family, type, proto, flags)
    with lookups.open("a") as file:
        file.write("x")
    told = json.loads(answers.read_text())
    found = told[min(lookups.stat().st_size, len(told)) - 1]
    return [one for text in found for one in system_getaddrinfo(text, port, 0, type, proto, socket.AI_NUMERICHOST)]


socket.getaddrinfo = getaddrinfo
ipaddress.IPv4Address.is_global = property(lambda self: str(self) == "PUBLIC" or system_is_global.fget(self))
"""


class PretendedInternet:
    """Keeps its names in `folder`, which it makes. `variables` are for the node's environment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.variables = python_path(folder)
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE.replace("PUBLIC", PUBLIC))

    def name(self, host: str, *answers: list[str]) -> None:
        """Lets `host` have these addresses: one list for each lookup, the last one for all that follow."""
        (self._folder / f"{host}.json").write_text(json.dumps(answers))

    def lookups(self, host: str) -> int:
        """How many times the node has looked `host` up, at least once."""
        return (self._folder / f"{host}.lookups").stat().st_size
