"""Puts the client's modules into a folder of their own, `tonearm_client`, which a file of paths names.

The node's package has the same modules in `tonearm`, which is found first. So the files of the two are never mixed, in
whichever order and version they are installed, and either can be taken away again.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildApart(build_py):
    def run(self) -> None:
        if self.editable_mode:
            raise SystemExit("The client cannot be installed with -e by itself; for that use the node's package: -e .")
        super().run()
        Path(self.build_lib, "tonearm_client.pth").write_text("tonearm_client\n", encoding="utf-8")


setup(cmdclass={"build_py": BuildApart})
