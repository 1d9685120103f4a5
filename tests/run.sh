#!/usr/bin/env bash
# Runs every test, after doing all the set-up: packages, builds, tests, closing line. See tests/README.md.
#   sudo tests/run.sh                 everything
#   sudo tests/run.sh --part e2e      one part (several: repeat it); --list names them
#   sudo tests/run.sh --long          soaks too: 10,000 seeds of the simulation, longer fuzzing
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/../apps/install-packages.sh"
exec /usr/bin/python3 "$here/runner" "$@"
