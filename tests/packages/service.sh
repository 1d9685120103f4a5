#!/bin/bash
# What an administrator does with the unit, on a machine that systemd has started. Each step ends it if it fails; the last line is "All ran."
set -euo pipefail
config=/etc/uroce/uroce.toml
drop_in=/run/systemd/system/uroced.service.d

value() { systemctl show uroced --property "$1" --value; }
as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"; }
# The step's name, then its condition.
check() { echo "== $1"; shift; "$@"; }
until_true() {
  for _ in $(seq 300); do
    if "$@" >/tmp/tried 2>&1; then return 0; fi
    sleep 0.1
  done
  cat /tmp/tried
  echo "not within 30 s: $*"
  return 1
}
is_another_than() { [[ $(value ActiveState) == active && $(value MainPID) != "$1" ]]; }
# CAP_NET_ADMIN and CAP_NET_RAW.
has_no_rights_over_the_network() {
  local effective
  effective=$(awk '/CapEff/ {print $2}' "/proc/$(value MainPID)/status")
  [[ -n $effective ]] && (( (0x$effective & 3 << 12) == 0 ))
}
said() { journalctl --sync; journalctl --unit uroced --output cat --lines 20 | grep --fixed-strings "$1"; }
both_cards_are_active() { [[ $(as_user ibv_devinfo | grep -c PORT_ACTIVE) == 2 ]]; }

# From one card to the other one, over the veth pair that their ports are on.
pingpong() {
  as_user timeout 60 ibv_rc_pingpong -d uroce0 -g 1 -c -n 200 -p 18620 >/tmp/server & local server=$!
  until_true as_user ibv_rc_pingpong -d uroce1 -g 1 -c -n 200 -p 18620 127.0.0.1
  wait "$server"
  grep '200 iters' /tmp/server
}

refused_for_good() {
  if systemctl restart uroced; then return 1; fi
  [[ $(value ExecMainStatus) == 78 && $(value ActiveState) == failed ]]
  said "$1"
}

reload_is_refused() { ! systemctl reload uroced; }

# DPDK and this script want what a container doesn't have, and a machine does: all of sysfs.
whole_sysfs() {
  mkdir -p /mnt/cgroup
  mount --rbind /sys/fs/cgroup /mnt/cgroup
  mount -t sysfs sysfs /sys
  mount --rbind /mnt/cgroup /sys/fs/cgroup
}

loopback() {
  check "the package's card is there after the machine's start" until_true as_user ibv_devinfo
  check "and has kept no rights over the network" has_no_rights_over_the_network
  local pid
  pid=$(value MainPID)
  check "a reload keeps the daemon" systemctl reload uroced
  until_true said "SIGHUP: nothing changed"
  [[ $(value MainPID) == "$pid" ]]
  cp $config /tmp/uroce.toml
  echo 'metrics = "127.0.0.1:9747"' >> $config
  check "a reload of a wrong file fails, and says why" reload_is_refused
  said "metrics is the daemon's, so it stands above the first [[port]]"
  cp /tmp/uroce.toml $config
  [[ $(value MainPID) == "$pid" ]]
  kill -KILL "$pid"
  check "a killed daemon is started again" until_true is_another_than "$pid"
}

interfaces() {
  ip link set lo up
  ip link add left type veth peer name right
  ip link set left up
  ip link set right up
  local driver
  for driver in packet xdp; do
    printf '[[port]]\nport = "net_af_%s%d,iface=%s"\nip = "10.6.0.%d/24"\n' "$driver" 0 left 1 "$driver" 1 right 2 >"$config"
    if [[ $driver == xdp ]]; then
      check "af_xdp says what the unit lacks, and isn't tried for ever" refused_for_good "uroced lacks CAP_SYS_ADMIN"
      mkdir -p "$drop_in"
      printf '[Service]\nAmbientCapabilities=CAP_SYS_ADMIN\nCapabilityBoundingSet=CAP_SYS_ADMIN\n' >"$drop_in/admin.conf"
      systemctl daemon-reload
    fi
    check "af_$driver starts" systemctl restart uroced
    until_true both_cards_are_active
    check "data moves over af_$driver" pingpong
  done
}

whole_sysfs
loopback
interfaces
systemctl stop uroced
check "nothing is left in /run" test ! -e /run/uroce
printf '[[port]]\nport = "loopbck"\n' >"$config"
check "a mistake in the configuration isn't tried for ever" refused_for_good loopbck
echo "All ran."
