"""Nodes that are one, with everything that can happen to them, one after the other and together; and a judge of what
listeners and clients got: `make chaos`."""
