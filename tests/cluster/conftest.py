"""The nodes of these tests need a NATS server and minutes: `make test-cluster` runs them."""

import os

collect_ignore_glob = (
    [] if os.environ.get("CLUSTER") else ["test_cluster.py", "test_relays.py", "test_chaos.py", "test_odd_nodes.py"]
)
