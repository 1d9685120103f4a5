#!/bin/sh
# A seed determines everything: PROGRAM prints the same for the same seeds in two processes, though
# the kernel places their memory at different addresses.
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
