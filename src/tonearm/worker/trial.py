"""A decoder process on trial, for `tonearm doctor`: `python -m tonearm.worker.trial SANDBOX_MODE`.

It does everything that a decoder process does before its first source, and prints an object of JSON: `libav`, the
version; `missing`, the codecs that it lacks of all `codecs`; `sandbox`, the level that the kernel allows; `problem`,
why it is not a higher one.
"""

import json
import sys

from tonearm.sandbox.report import SandboxMode
from tonearm.worker.media.formats import CODECS, libav_version, missing_codecs
from tonearm.worker.process import prepare

_MEMORY_LIMIT_MB = 1024


def main() -> None:
    report = prepare(_MEMORY_LIMIT_MB, SandboxMode(sys.argv[1])).enter()
    told = {
        "libav": libav_version(),
        "codecs": len(CODECS),
        "missing": missing_codecs(),
        "sandbox": report.level,
        "problem": report.problem,
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
