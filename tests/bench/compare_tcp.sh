#!/usr/bin/env bash
# ib_write_bw (64 KiB) against iperf3's TCP, by turns in one run on this machine. Prints medians and their ratio.
#   sudo tests/bench/compare_tcp.sh [--wire memory|udp] [--json] [--runs N] [--seconds N]
# memory: two daemons joined by shm ports, TCP over a veth pair at MTU 9000.
# udp: two udp ports over that veth pair, at MTU 1500 and 9000, everything an ordinary user's.
set -euo pipefail
exec /usr/bin/python3 "$(dirname "$0")/compare_tcp.py" "$@"
