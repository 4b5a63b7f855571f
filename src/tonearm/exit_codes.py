"""With which status the command's process exits."""

from typing import Final

OK: Final = 0
FAILED: Final = 1  # while it ran, or before it was done
WRONG_USE: Final = 2  # wrong arguments (click's own status), or a wrong configuration
MISSING: Final = 3  # what the node needs is not there: a free address, the file of its state, a required sandbox
UNREACHED: Final = 4  # no node was reached, or it refused the password
