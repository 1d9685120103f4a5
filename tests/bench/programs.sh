#!/usr/bin/env bash
# Applications on uroce and over TCP, by turns in one run on this machine: a loopback card against the kernel's loopback. Prints medians
# and their ratios.
#   sudo tests/bench/programs.sh [--json] [--runs N] [--build FOLDER] [WORD...]      only rows with one of these words
set -euo pipefail
exec /usr/bin/python3 "$(dirname "$0")/programs.py" "$@"
