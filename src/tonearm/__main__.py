"""`python -m tonearm` is the command `tonearm`."""

import sys


def main() -> int:
    """The command with the process' arguments. Ctrl-C ends it without a traceback while its modules are loaded, too."""
    try:
        from tonearm import cli

        return cli.main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
