"""With which status the command's process exits."""

from typing import Final

OK: Final = 0
FAILED: Final = 1  # while it ran, or before it was done
WRONG_USE: Final = 2  # wrong arguments (argparse's own status), a wrong configuration, or an address that is not free
