"""`python -m tonearm` is the command `tonearm`."""

import os
import signal
import sys


def main() -> int:
    """The command with the process' arguments. Ctrl-C ends it without a traceback while its modules are loaded, too."""
    if os.getpid() == 1:  # The kernel keeps SIGTERM from a container's first process, as long as nothing handles it.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        from tonearm import cli

        return cli.main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # The working folder, where a user's own `queue.py` would hide Python's.
    sys.exit(main())
