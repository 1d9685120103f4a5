"""Runs the end-to-end cases, each in a process of its own.

  /usr/bin/python3 tests/e2e                  all cases against build/
  /usr/bin/python3 tests/e2e pingpong veth    those whose name has both words
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from harness.runner import main  # noqa: E402  (needs the path above)

if __name__ == "__main__":
    sys.exit(main(HERE, __doc__))
