"""A test of a cluster under random faults, and of what its listeners and clients received."""
