"""A program: a process that has loaded yt-dlp and the site `fake`, and becomes a resolving process as often as it is
asked to, by a fork. To load yt-dlp is what the start of one costs.

It is asked as `decoder_template` is; the first of the arguments says whether the site is to be known.
"""

import importlib
import socket
import sys
from pathlib import Path
from typing import Any

import tonearm.sources.resolver.challenges
import tonearm.sources.resolver.extraction  # noqa: F401 - so that those that come of it have them
from tonearm.sources.resolver.child import answer_requests

sys.path.append(str(Path(__file__).parent))  # a program has no packages around it
template: Any = importlib.import_module("sibling_template")
fake_sites: Any = importlib.import_module("fake_sites")

if __name__ == "__main__":
    arguments = template.serve(socket.socket(fileno=int(sys.argv[1])))
    if arguments is not None:
        knows_fake, *others = arguments
        if knows_fake == "fake":
            fake_sites.make_known()
        answer_requests(others)
