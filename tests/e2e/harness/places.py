"""Folders of this tree that cases use."""

import os

E2E = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(os.path.dirname(E2E))
SOURCES = os.path.join(E2E, "sources")  # programs that cases compile
PYVERBS = os.path.join(E2E, "pyverbs")  # not a package: Debian's module has this name
RUN_SUITE = os.path.join(PYVERBS, "run_suite.py")
