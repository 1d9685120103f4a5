#!/usr/bin/env bash
# What each kind of port reaches: ib_write_bw (64 KiB) and ib_write_lat (8 bytes) between two programs, beside iperf3's TCP
# in the same minute. Prints a table for docs/ports.md.
#   sudo tests/bench/ports.sh [--json] [--runs N] [--seconds N] [ROW...]
set -euo pipefail
exec /usr/bin/python3 "$(dirname "$0")/ports.py" "$@"
