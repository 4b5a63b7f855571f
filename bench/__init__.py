"""Measurements of a node: capacity, reaction times and memory. Checks and trials are in `tools`."""
