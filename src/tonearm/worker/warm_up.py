"""Opens early what a decoder process would open late: once it is confined, it can open nothing.

Python imports modules at their first use, PyAV some at the first source, libc loads a library when a thread ends.
So the process does once what it is for, on the bundled clip.
"""

import array  # noqa: F401 - imported by socket.recv_fds when it is called
import codecs
import importlib
import os
import pkgutil
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import av

from tonearm.core.filters import BAND_COUNT, Filters
from tonearm.core.frame import FRAME_SAMPLES, SILENT_FRAME
from tonearm.core.outputs import Output
from tonearm.worker.filters.chain import ChainState, process
from tonearm.worker.media.formats import libavutil
from tonearm.worker.media.media import open_media
from tonearm.worker.packets.opus_encoder import OpusEncoder, opus_problem
from tonearm.worker.reading.reader import DescriptorReader

_CLIP: Final = Path(__file__).parents[1] / "clips" / "welcome.opus"  # importlib.resources would take 10 ms
_FRAMES: Final = 20
_ENCODINGS: Final = ("ascii", "cp1252", "latin-1", "utf-16", "utf-8")
_NOT_NEEDED: Final = frozenset({"av.__main__", "av.datasets"})


class Exercise:
    """Called, it decodes and filters the beginning of the bundled clip, which it has open. Raises what goes wrong.

    Making it imports what is imported late. Raises `OSError` when the clip is not there. `close` closes the clip.
    """

    def __init__(self) -> None:
        self._clip = os.open(_CLIP, os.O_RDONLY | os.O_CLOEXEC)
        self._clip_bytes = os.fstat(self._clip).st_size
        for module in pkgutil.walk_packages(av.__path__, "av."):
            if module.name not in _NOT_NEEDED:
                importlib.import_module(module.name)
        for encoding in _ENCODINGS:
            codecs.lookup(encoding)
        libavutil()
        if not opus_problem():  # found by looking into folders
            OpusEncoder(Output("opus")).encode(SILENT_FRAME)

    def __call__(self) -> None:
        reader = DescriptorReader(self._clip, self._clip_bytes, nullcontext)
        media = open_media(reader, name=_CLIP.name, content_type=None, size_bytes=self._clip_bytes)
        try:
            pcm = media.decode(_FRAMES * FRAME_SAMPLES)
        finally:
            media.close()
        frame_bytes = len(pcm) - len(pcm) % (FRAME_SAMPLES * 4)
        process(ChainState.steady(Filters(0.5, (1.0,) * BAND_COUNT)), pcm[:frame_bytes])

    def close(self) -> None:
        os.close(self._clip)
