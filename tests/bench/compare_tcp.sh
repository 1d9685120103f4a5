#!/usr/bin/env bash
# ib_write_bw (64 KiB, two daemons over a shared-memory wire) against iperf3's TCP over a veth pair at MTU 9000, by turns in
# one run on this machine. Prints medians and their ratio.
#   sudo tests/bench/compare_tcp.sh [--json] [--runs N] [--seconds N]
set -euo pipefail
exec /usr/bin/python3 "$(dirname "$0")/compare_tcp.py" "$@"
