#!/usr/bin/env bash
# Two programs and one loopback daemon against UCX's posix shared memory and iperf3's TCP over lo, by turns in one run on this machine.
# Prints medians and their ratios.
#   sudo tests/bench/local_bench.sh [--json] [--runs N] [--seconds N] [--build FOLDER]
set -euo pipefail
exec /usr/bin/python3 "$(dirname "$0")/local_bench.py" "$@"
