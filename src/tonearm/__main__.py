"""`python -m tonearm` is the command `tonearm`."""

import sys

from tonearm.cli import main

sys.exit(main())
