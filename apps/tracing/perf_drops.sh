#!/bin/sh
# Prints each dropped frame's worker, port and reason, until Ctrl-C. Needs perf, tracefs and root; $1: the daemon's program.
set -eu
program=${1:-$(command -v uroced || echo /usr/sbin/uroced)}
tracer=
perf buildid-cache --add "$program"
trap 'test -z "$tracer" || kill "$tracer" 2>/dev/null; perf probe --quiet --del sdt_uroce:drop' EXIT
trap 'exit 130' INT TERM
perf probe --quiet --add sdt_uroce:drop
perf trace --no-syscalls --event sdt_uroce:drop &
tracer=$!
echo "looking for drops of $program" >&2
wait "$tracer"
