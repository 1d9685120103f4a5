# Runs as the first process of the emulated machine: the unit tests, then unmodified programs over a daemon. Writes a line a case
# to $UROCE_WORK/cases (name, exit code, seconds), and what each has said to a file of its name there.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/tmp
sh() { busybox sh "$@"; }
shim=$UROCE_BUILD/verbs_shim

# case NAME SECONDS_MAX COMMAND...
run() {
  name=$1 limit=$2
  shift 2
  begun=$(date +%s)
  timeout -k 5 "$limit" "$@" >"$UROCE_WORK/$name.log" 2>&1 </dev/null
  code=$?
  echo "$name $code $(($(date +%s) - begun))" >>"$UROCE_WORK/cases"
  echo "$name ended with $code" >/dev/console
}

# pair NAME SECONDS_MAX COMMAND...: the command as the server, and with 127.0.0.1 behind it as the client.
pair() {
  name=$1 limit=$2
  shift 2
  begun=$(date +%s)
  LD_LIBRARY_PATH=$shim timeout -k 5 "$limit" "$@" >"$UROCE_WORK/$name-server.log" 2>&1 </dev/null &
  server=$!
  until grep -q ":$PORT_HEX " /proc/net/tcp /proc/net/tcp6 || ! kill -0 $server 2>/dev/null; do sleep 0.2; done
  LD_LIBRARY_PATH=$shim timeout -k 5 "$limit" "$@" 127.0.0.1 >"$UROCE_WORK/$name.log" 2>&1 </dev/null
  code=$?
  wait $server || code=$((code == 0 ? 1 : code))
  echo "$name $code $(($(date +%s) - begun))" >>"$UROCE_WORK/cases"
  echo "$name ended with $code" >/dev/console
}

uname -a >"$UROCE_WORK/machine.log"
grep -m 1 Features /proc/cpuinfo >>"$UROCE_WORK/machine.log"
cd "$UROCE_WORK" || exit
if [ -e "$UROCE_WORK/tests" ]; then
  while read -r name limit command; do run "$name" "$limit" $command; done <"$UROCE_WORK/tests"
fi

if [ -e "$UROCE_WORK/programs" ]; then
  mkdir -p /run/uroce
  mkfifo /run/ready
  "$UROCE_BUILD/apps/uroced" --port loopback --ip 10.0.0.1/24 --ready-fd 3 3>/run/ready >"$UROCE_WORK/uroced.log" 2>&1 &
  daemon=$!
  timeout 60 head -c 1 /run/ready >/dev/null
  LD_LIBRARY_PATH=$shim run devinfo 60 ibv_devinfo
  PORT_HEX=4885  # 18565
  pair pingpong 120 ibv_rc_pingpong -p 18565 -g 1 -n 200
  pair pingpong_events 120 ibv_rc_pingpong -p 18565 -g 1 -n 200 -e
  pair pingpong_on_demand 120 ibv_rc_pingpong -p 18565 -g 1 -n 200 -o -c
  pair pingpong_checked 120 ibv_rc_pingpong -p 18565 -g 1 -n 100 -c
  pair ud_pingpong 120 ibv_ud_pingpong -p 18565 -g 1 -n 200
  pair write_bandwidth 240 ib_write_bw -F -p 18565 -x 1 -n 500 -s 65536
  pair write_latency 240 ib_write_lat -F -p 18565 -x 1 -n 500
  pair atomics 240 ib_atomic_bw -F -p 18565 -x 1 -n 200
  LD_LIBRARY_PATH=$shim run integrity 300 "$UROCE_BUILD/apps/uroce" integrity --ops 2000
  LD_LIBRARY_PATH=$shim run integrity_on_demand 300 "$UROCE_BUILD/apps/uroce" integrity --ops 2000 --odp explicit
  kill -TERM $daemon
  wait $daemon
  echo "uroced $? 0" >>"$UROCE_WORK/cases"
fi
echo end >>"$UROCE_WORK/cases"
sync
busybox poweroff -f
