"""A node of which the decoder and resolver processes can be taken over: sources whose names begin with "attack". And
a node that meets an error of its own at sources whose names begin with "breaks", a second after it begins to play them,
and whose decoder processes crash at the bytes `DEADLY` in sources whose names begin with "deadly".

hostile = Hostile(tmp_path / "hostile")
async with running_node(tmp_path, variables=hostile.variables) as node: ... play "attack.wav" ...

A decoder that opens one runs `tests/support/attack.py` where it would decode, and so does a resolver at the page
/fake/attack, and the process that prepares a script in which ATTACK stands. What got through is in the failure's
message: see `got_through`. Nothing of the node itself is changed; its processes are, by the module `sitecustomize` that
Python imports at its start.
"""

import shutil
from pathlib import Path
from typing import Final

from tests.support import attack
from tests.support.environment import python_path

DEADLY: Final = b"DEADLY"

_SITECUSTOMIZE: Final = """
import ctypes
import sys

if "tonearm.worker" in sys.orig_argv:
    import attack
    import tonearm.worker.sources.source_content as content
    from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage

    open_really = content.open_media

    def open_media(reader, *, name, **more):
        if name.startswith("attack"):
            told = "got through: " + ", ".join(attack.attack())
            raise PlayError(PlayFailure(FailureCode.CORRUPT, Stage.DECODE, told, "x"))
        if name.startswith("deadly"):
            read_really = reader.read

            def read(count):
                data = read_really(count)
                if b"DEADLY" in data:
                    ctypes.string_at(0)
                return data

            reader.read = read
        return open_really(reader, name=name, **more)

    content.open_media = open_media

    from tonearm.worker.rendering.render_session import RenderSession

    render_really = RenderSession.render

    def render(self, *blocks):
        source = self._sources._opened.get(self.current_source)
        if source is not None and source._order.name.startswith("breaks") and self._music.position.sample >= 48_000:
            raise LookupError("samples that nobody has")
        return render_really(self, *blocks)

    RenderSession.render = render
elif "tonearm.sources.resolver.child" in sys.orig_argv:
    import fake_sites
    from yt_dlp.globals import extractors

    extractors.value["FakeIE"] = fake_sites.FakeIE
elif "tonearm.sources.resolver.preparer" in sys.orig_argv:
    import attack
    import tonearm.sources.resolver.javascript as javascript

    prepare_really = javascript.prepare

    def prepare(script):
        if "ATTACK" in script:
            raise javascript.ScriptError("got through: " + ", ".join(attack.attack()))
        return prepare_really(script)

    javascript.prepare = prepare
"""


class Hostile:
    """Keeps its modules in `folder`, which it makes. `variables` are for the node's environment."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE)
        support = Path(attack.__file__).parent
        for name in ("attack.py", "fake_sites.py"):
            shutil.copy(support / name, folder)
        self.variables = {**python_path(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def got_through(message: str) -> set[str]:
    """What a failure that an attack left tells. Fails when it is no such message."""
    _, separator, names = message.partition("got through: ")
    assert separator, message
    return set(names.rstrip(".").split(", "))
