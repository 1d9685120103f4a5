"""Runs the cases that need a machine of their own: a guest with Debian's kernel, beside daemons on this machine.

  /usr/bin/python3 tests/guests                    all cases against build/
  /usr/bin/python3 tests/guests linux udp          those whose name has all the words
  /usr/bin/python3 tests/guests --uroced OLD       against another tree's daemon
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "e2e")]

from harness.runner import main  # noqa: E402  (needs the path above)

if __name__ == "__main__":
    sys.exit(main(HERE, __doc__))
