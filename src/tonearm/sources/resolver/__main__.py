"""`python -m tonearm.sources.resolver MEMORY_LIMIT_MB SANDBOX_MODE SITE… DOOR_FD`: started by the node only."""

import sys

from tonearm.sources.resolver.child import serve

serve(sys.argv[1:])
