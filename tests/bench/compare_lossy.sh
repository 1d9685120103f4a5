#!/usr/bin/env bash
# ib_write_bw (64 KiB) over udp ports against iperf3's TCP with CUBIC and with BBR, by turns, through a router that loses
# packets in both directions. Daemons and ib_write_bw are an ordinary user's; iperf3 is root's, since the kernel's list of
# what others may choose for TCP can lack either. Prints medians and their ratios.
#   sudo tests/bench/compare_lossy.sh [--json] [--loss PERCENT] [--mtu N] [--runs N] [--seconds N]
set -euo pipefail
exec /usr/bin/python3 "$(dirname "$0")/compare_lossy.py" "$@"
