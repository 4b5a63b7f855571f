"""Nodes that are one, with everything that can happen to them, and a judge of what listeners and clients got."""
