"""Runs the hostile cases: an attacker of another user against a victim and the daemon that serves both.

  /usr/bin/python3 tests/hostile                    all cases against build/
  /usr/bin/python3 tests/hostile records            those whose name has the word
  /usr/bin/python3 tests/hostile --uroced OLD       against another tree's daemon: does a case fail without the fix?
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "e2e")]

from harness.runner import main  # noqa: E402  (needs the path above)

if __name__ == "__main__":
    sys.exit(main(HERE, __doc__))
