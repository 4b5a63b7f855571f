"""What processes in a sandbox know of the node's environment, and which files they may read."""

import site
import socket
import sys
from pathlib import Path

import pytest

from tonearm.sandbox.report import minimal_environment
from tonearm.sources.resolver.confinement import readable_paths


def test_only_what_an_interpreter_needs_is_handed_on() -> None:
    given = {"PATH": "/bin", "LANG": "C", "HOME": "/home/me", "BOT_TOKEN": "x", "TONEARM_SERVER__PASSWORD": "y"}
    kept = minimal_environment(given)
    assert {**kept, "PYTHONUSERBASE": ""} == {"PATH": "/bin", "LANG": "C", "PYTHONUSERBASE": ""}
    # Packages of the user are found without their home.
    assert minimal_environment(given, has_user_packages=True)["PYTHONUSERBASE"] == site.getuserbase()
    assert "PYTHONUSERBASE" not in minimal_environment(given, has_user_packages=False)


def test_a_resolver_reads_python_and_no_more() -> None:
    paths = readable_paths()
    assert Path(socket.__file__).parent in paths
    assert Path(pytest.__file__).parents[1] in paths
    for forbidden in ("/", "/usr", "/etc", "/etc/ssl", "/etc/ssl/certs", sys.prefix, sys.base_prefix):
        assert Path(forbidden) not in paths
    assert all(path.exists() and path.is_absolute() for path in paths)
