"""How the decoder processes of tests are confined.

SANDBOX_OF_TESTS=trap make test ARGS="tests/decoder tests/node"    a call that the list does not foresee ends a process
"""

import os
from typing import Final

from tonearm.sandbox.report import SandboxMode

SANDBOX: Final = SandboxMode(os.environ.get("SANDBOX_OF_TESTS", "auto"))
