"""The commands that speak to a node through the client: `tonearm play`, `listen`, `doctor` and the others.

The command line is parsed in `cli`. `tonearm serve` is in `serve`, and the dashboard in `dashboard`.
"""
