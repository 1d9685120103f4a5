#!/bin/sh
# A seed decides everything: PROGRAM prints the same of the same seeds in two processes, though the
# kernel gives each its memory at other addresses.
set -eu
program=$1

run() {
  "$program" --seeds 20 --first-seed 1049900 2>&1
}

first=$(run) || { printf '%s\n' "$first"; exit 1; }
again=$(run) || { printf '%s\n' "$again"; exit 1; }
if [ "$first" != "$again" ]; then
  printf 'The same seeds, and not the same run:\n%s\n%s\n' "$first" "$again"
  exit 1
fi
