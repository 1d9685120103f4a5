#!/usr/bin/env bash
# Installs the Debian packages of apps/packages.txt that are missing; needs no network when none is.
#   apps/install-packages.sh [GROUP...]     groups: build, run, test (default: all)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
groups=" ${*:-build run test} "

wanted=()
while read -r package group _; do
  [[ -z $package || $package == \#* ]] && continue
  [[ $groups == *" $group "* ]] && wanted+=("$package")
done <"$here/packages.txt"

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

if [[ $(id -u) -ne 0 ]]; then
  echo "install-packages.sh: these packages are missing and only root can install them: ${missing[*]}" >&2
  exit 1
fi
echo "Installing ${#missing[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 30 "$log" >&2
  echo "install-packages.sh: apt-get failed; its last lines are above" >&2
  exit 1
fi
