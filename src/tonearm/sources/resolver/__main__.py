"""`python -m tonearm.sources.resolver MEMORY_LIMIT_MB SITE…`: started by the node, never by hand."""

import sys

from tonearm.sources.resolver.child import serve

serve(int(sys.argv[1]), tuple(sys.argv[2:]))
