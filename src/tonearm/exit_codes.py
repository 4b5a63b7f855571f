"""With which status the command's process exits."""

from typing import Final

OK: Final = 0
FAILED: Final = 1  # while it ran, or before it was done
WRONG_USE: Final = 2  # wrong arguments (click's own status), a wrong configuration, or an address that is not free
MISSING: Final = 3  # something that the node needs is not there: its state file
UNREACHED: Final = 4  # no node was reached, or it refused the password
