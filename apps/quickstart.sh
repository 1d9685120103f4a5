#!/usr/bin/env bash
# From a fresh Debian 12 machine to RDMA traffic: installs what is needed, builds, starts two daemons joined by a wire, and
# runs unmodified Debian programs through them. Prints what ran, how fast, and whether the data was right.
#   sudo apps/quickstart.sh                  installs packages, builds in build/
#   sudo apps/quickstart.sh --installed      runs what is installed already (the packages of debian/)
# Leaves nothing behind but the packages, the build folder (build/; under sudo it is the caller's) and /dev/infiniband/uroce0, a link that
# daemons of root make (man uroced); also when it fails. May be run again.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d /tmp/uroce-quickstart-XXXXXX)
children=()
failed=0
mode=${1:-}

# Whether one of the processes that this started is still there.
any_left() {
  for child in "${children[@]}"; do kill -0 "$child" 2>/dev/null && return; done
  return 1
}

# A daemon that is told to end removes its folder below /var/run/dpdk; one that doesn't within five seconds is killed.
clean_up() {
  trap '' INT TERM
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  for ((tries = 0; tries < 50; ++tries)); do
    any_left || break
    sleep 0.1
  done
  for child in "${children[@]}"; do kill -9 "$child" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
  # What comes next (README.md) is done by the user who called sudo.
  if [[ -n ${SUDO_UID:-} && -n ${SUDO_GID:-} && -z $mode && -d build ]]; then
    chown -R --no-dereference "$SUDO_UID:$SUDO_GID" build || true
  fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

die() { echo "quickstart.sh: $*" >&2; exit 1; }

# quietly WHAT COMMAND...: shows the output only when it fails.
quietly() {
  local what=$1; shift
  echo "$what ..."
  "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; die "failed: $*"; }
}

case $mode in
  "")
    apps/install-packages.sh build run
    [[ -f build/build.ninja ]] || quietly "Configuring" meson setup build
    quietly "Building" ninja -C build programs
    daemon=build/apps/uroced uroce=build/apps/uroce integrity=build/apps/integrity/integrity
    export LD_LIBRARY_PATH=$PWD/build/verbs_shim  # programs take this libibverbs.so.1
    ;;
  --installed)
    daemon=$(command -v uroced) || die "uroced isn't installed: apt install ./uroce_*.deb ./libibverbs-uroce_*.deb"
    uroce=$(command -v uroce) integrity=$(dirname "$daemon")/../libexec/uroce/integrity
    ;;
  *) die "usage: apps/quickstart.sh [--installed]" ;;
esac

# start_daemon NAME PORT ADDRESS: returns when the daemon is ready.
start_daemon() {
  mkfifo "$work/$1.ready"
  "$daemon" --port "$2" --ip "$3" --mtu 4200 --socket "$work/$1.sock" --ready-fd 3 \
    3>"$work/$1.ready" >"$work/$1.log" 2>&1 &
  children+=($!)
  if [[ -z $(timeout 30 head -c 1 "$work/$1.ready" | tr '\0' 1) ]]; then
    cat "$work/$1.log" >&2
    die "daemon $1 did not start"
  fi
}

echo "Starting two daemons joined by shared memory ..."
start_daemon a "net_vhost0,iface=$work/wire.sock,queues=1" 10.77.1.1/24
start_daemon b "net_virtio_user0,path=$work/wire.sock,queues=1" 10.77.1.2/24

# on DAEMON COMMAND...: runs a program on the card of daemon a or b. This, and to find uroce's libibverbs, is all that a program needs.
on() {
  UROCE_SOCKET=$work/$1.sock timeout 120 "${@:2}"
}

row() { printf '%-32s %-7s %-31s %s\n' "$1" "$2" "$3" "$4"; }

# pair LABEL DATA FIGURE COMMAND...: server on daemon a, client on daemon b; FIGURE is an awk program over the client's output.
serve=() connect=() port_flag=-p  # how the program is told its role
pair() {
  local label=$1 data=$2 figure=$3 port server
  shift 3
  port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  on a "$@" "$port_flag" "$port" "${serve[@]}" >"$work/server" 2>&1 &
  server=$!
  children+=("$server")
  until ss -Hltn "sport = :$port" | grep -q . || ! kill -0 "$server" 2>/dev/null; do sleep 0.05; done
  if on b "$@" "$port_flag" "$port" "${connect[@]}" 127.0.0.1 >"$work/client" 2>&1 && wait "$server"; then
    row "$label" ok "$(awk "$figure" "$work/client")" "$data"
  else
    row "$label" FAILED "$(grep -v '^ *$' "$work/client" | tail -n 1 | cut -c 1-60)" "-"
    kill -9 "$server" 2>/dev/null || true
    failed=1
  fi
}

# -D (for so many seconds) and not -n: perftest's clock is wrong on a busy virtual machine when it counts processor cycles.
bandwidth='$1 == 65536 { printf "%.1f Gb/s", $4 }'
echo
row PROGRAM RESULT FIGURE "DATA"
if on a ibv_devinfo >"$work/devinfo" 2>&1 && grep -q PORT_ACTIVE "$work/devinfo"; then
  row ibv_devinfo ok "$(awk '/hca_id/ { name = $2 } /active_mtu/ { print name ", MTU " $2 }' "$work/devinfo")" "-"
else
  row ibv_devinfo FAILED "$(tail -n 1 "$work/devinfo")" "-"
  failed=1
fi
# What this leaves in the user's own folder, if anything, goes with ours.
if XDG_RUNTIME_DIR=$work on a "$uroce" run -- ls /sys/class/infiniband >"$work/cards" 2>&1 && grep -qx "uroce0" "$work/cards" &&
  [[ $(wc -l <"$work/cards") -eq 1 ]]; then
  row "ls /sys/class/infiniband" ok "$(cat "$work/cards"), by uroce run" "-"
else
  row "ls /sys/class/infiniband" FAILED "$(tail -n 1 "$work/cards" | cut -c 1-60)" "-"
  failed=1
fi
pair "ibv_rc_pingpong, 4 KiB" "checked by the program" '/usec\/iter/ { print $(NF - 1), "us there and back" }' \
  ibv_rc_pingpong -g 1 -c
pair "ib_send_bw, 64 KiB" "-" "$bandwidth" ib_send_bw -F -x 1 --report_gbits -D 2 -f 0
pair "ib_write_bw, 64 KiB" "-" "$bandwidth" ib_write_bw -F -x 1 --report_gbits -D 2 -f 0
pair "ib_read_bw, 64 KiB" "-" "$bandwidth" ib_read_bw -F -x 1 --report_gbits -D 2 -f 0
pair "ib_atomic_bw, fetch and add" "-" '$1 == 8 { printf "%.3f million/s", $5 }' ib_atomic_bw -F -x 1 -D 2 -f 0
pair "ib_send_lat, 2 B" "-" '$1 == 2 { print $5, "us one way (median)" }' ib_send_lat -F -x 1 -n 1000
serve=(--server) connect=(--connect) port_flag=--port
pair "integrity, random operations" "every byte verified" '/operations/ { print $2, $3, $4, $5 }' \
  "$integrity" --ops 20000
echo
[[ $failed -eq 0 ]] || die "something failed, see the table"
echo "All ran. Next: README.md, \"Using it\"."
