#!/usr/bin/env bash
# Runs the benchmarks of a release build and keeps what they print, with the machine and the commands: one file a version
# and machine. Nothing else should run meanwhile.
#   tests/bench/history/record.sh MACHINE      a short name for this machine, as it shall stand in the file's name
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../../build
[[ $# -eq 1 ]] || { sed -n 4p "$0" >&2; exit 2; }

version=$("$build/apps/uroced" --version | awk '{ print $2 }')
file=$here/$version-$1.md
benchmarks=("datapath_bench --json" "registration_bench --json" "kernel_bench --json" "odp_bench --json"
  "wire_bench --benchmark_format=console --benchmark_min_time=0.1")
{
  echo "# uroce $version on $1"
  echo
  echo "* commit: $(git -C "$here" describe --always --dirty)"
  echo "* processor: $(nproc) of $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)"
  echo "* kernel: $(uname -r); compiler: $(g++ --version | head -n 1)"
  echo "* load before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
  for command in "${benchmarks[@]}"; do
    printf '\n`build/tests/bench/%s`\n\n```\n' "$command"
    # shellcheck disable=SC2086  # a program and its flags
    "$build"/tests/bench/$command 2>/dev/null
    echo '```'
  done
} >"$file.new"
mv "$file.new" "$file"
echo "$file"
