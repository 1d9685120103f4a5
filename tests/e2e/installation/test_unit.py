"""The systemd unit's user and capabilities, without systemd: root's programs and other users' are served."""

import os
import re
import shutil
import subprocess

from harness.case import E2eCase
from harness.places import ROOT
from harness.wires import free_tcp_port

_UNIT = os.path.join(ROOT, "apps", "packaging", "uroced.service.in")
_DAEMON, _USER = 61_000, 65_534

# A /run of its own, as systemd would make RuntimeDirectory=uroce for the unit's user.
_SCRIPT = """
set -e
mount -t tmpfs -o mode=0755 none /run
install -d -o {daemon} -g {daemon} -m 0755 /run/uroce
setpriv --reuid {daemon} --regid {daemon} --clear-groups --bounding-set -all,{capabilities} --inh-caps -all,{capabilities} \\
  --ambient-caps -all,{capabilities} --no-new-privs --pdeathsig KILL \\
  {uroced} --port loopback --ip 10.77.0.1/24 --log-level error & daemon=$!
until [ -S /run/uroce/uroce.sock ]; do kill -0 $daemon; sleep 0.02; done
until {uroce} status >/dev/null 2>&1; do kill -0 $daemon; sleep 0.02; done
{uroce} addr add 10.77.0.2/24
as_user() {{ setpriv --reuid {user} --regid {user} --clear-groups --inh-caps=-all --bounding-set=-all "$@"; }}
for way in share copy; do
  export UROCE_MEMORY=$way
  as_user {uroce} run -- ibv_rc_pingpong -g 1 -c -n 50 -p {port} >/dev/null & server=$!
  until as_user {uroce} run -- ibv_rc_pingpong -g 1 -c -n 50 -p {port} 127.0.0.1 >/dev/null 2>&1; do kill -0 $server; done
  wait $server
  echo served by $way
done
grep -E '^(Uid|CapPrm)' /proc/$daemon/status
kill $daemon
"""


def _capabilities_of_ours():
    """Root in a container may lack some capabilities."""
    with open("/proc/self/status", encoding="ascii") as status:
        held = int(re.search(r"CapPrm:\s+(\w+)", status.read()).group(1), 16)
    names = subprocess.run(["setpriv", "--list-caps"], capture_output=True, text=True, check=True).stdout.split()
    return [name for number, name in enumerate(names) if held >> number & 1]


class Unit(E2eCase):
    def test_its_user_and_capabilities_are_enough(self):
        self.need_root("it mounts a /run, and becomes two users")
        with open(_UNIT, encoding="utf-8") as file:
            unit = file.read()
        named = re.search(r"^AmbientCapabilities=(.*)$", unit, re.MULTILINE).group(1)
        self.assertEqual(named, re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE).group(1))
        capabilities = ",".join("+" + name for name in _capabilities_of_ours() if f"CAP_{name.upper()}" in named.split())
        script = _SCRIPT.format(daemon=_DAEMON, user=_USER, capabilities=capabilities, uroced=self.tree.uroced[0],
                                uroce=self.tree.uroce, port=free_tcp_port())
        answer = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", script], capture_output=True,
                                text=True, timeout=120, check=False, stdin=subprocess.DEVNULL, cwd="/",
                                env={"PATH": os.environ["PATH"]})
        if "unshare" in answer.stderr:
            self.skipTest(answer.stderr)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("served by copy", answer.stdout)
        self.assertRegex(answer.stdout, rf"Uid:\s+{_DAEMON}\s")
        self.assertNotIn("isn't on its list of allowed calls", answer.stderr)

    def test_systemd_knows_each_line(self):
        """systemd-analyze verify reports lines that it ignores."""
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze here")
        path = f"{self.folder}/uroced.service"
        with open(_UNIT, encoding="utf-8") as file, open(path, "w", encoding="utf-8") as out:
            out.write(file.read().replace("@sbindir@/uroced", "/bin/true").replace("@sysconfdir@", "/etc"))
        answer = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, timeout=60,
                                check=False)
        self.assertNotRegex(answer.stderr, r"ignoring|Unknown")

    def test_it_isnt_started_again_with_a_wrong_configuration(self):
        """A typing error ends it with the status that the unit knows; what may come later, with another one."""
        with open(_UNIT, encoding="utf-8") as file:
            final = int(re.search(r"^RestartPreventExitStatus=(\d+)$", file.read(), re.MULTILINE).group(1))
        path, port = os.path.join(self.folder, "uroce.toml"), 'port = "loopback"\nip = "10.77.0.1/24"\n'
        for text, status in (('prot = "loopback"', final), ("port = ", final), ('port = "loopbak"\nip = "10.77.0.1/24"', final),
                             ('port = "udp"\nip = "192.0.2.77/24"', 1), (port + "[limits.nobody-by-this-name]\nqps = 1", 1)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            answer = subprocess.run([*self.tree.uroced, "--config", path, "--socket", os.path.join(self.folder, "s")],
                                    capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL)
            self.assertEqual(answer.returncode, status, answer.stderr)

    def test_the_journal_gets_priorities(self):
        """Lines have sd-daemon(3)'s prefix if standard error is what JOURNAL_STREAM names, and only then."""
        missing = [*self.tree.uroced, "--config", os.path.join(self.folder, "missing.toml")]
        for named, prefix in ((True, "<3>uroced: "), (False, "uroced: ")):
            read, write = os.pipe()
            stream = os.fstat(write if named else read)
            inode = stream.st_ino if named else stream.st_ino + 1
            with os.fdopen(read, encoding="utf-8") as lines:
                answer = subprocess.run(missing, stderr=write, check=False, timeout=30, stdin=subprocess.DEVNULL,
                                        env={"PATH": os.environ["PATH"], "JOURNAL_STREAM": f"{stream.st_dev}:{inode}"})
                os.close(write)
                first = lines.readline()
            self.assertNotEqual(answer.returncode, 0)
            self.assertTrue(first.startswith(prefix), first)
        read, write = os.pipe()
        stream = os.fstat(write)
        with os.fdopen(read, encoding="utf-8") as lines, subprocess.Popen(
                [*self.tree.uroced, "--port", "loopback", "--ip", "10.77.0.1/24", "--socket", os.path.join(self.folder, "s")],
                stderr=write, stdin=subprocess.DEVNULL,
                env={"PATH": os.environ["PATH"], "JOURNAL_STREAM": f"{stream.st_dev}:{stream.st_ino}"}) as daemon:
            os.close(write)
            first = lines.readline()
            daemon.terminate()
        self.assertTrue(first.startswith("<6>uroced: "), first)

    def test_lines_of_dpdk_have_priorities_in_the_journal(self):
        """The EAL logs on its own; its refusal of a processor that no machine here has is an error."""
        read, write = os.pipe()
        stream = os.fstat(write)
        with os.fdopen(read, encoding="utf-8") as lines:
            answer = subprocess.run([*self.tree.uroced, "--port", "net_tap0", "--ip", "10.77.0.1/24",
                                     "--socket", os.path.join(self.folder, "s"), "--", "--lcores", "0@9999"],
                                    stdout=subprocess.DEVNULL, stderr=write, check=False, timeout=30, stdin=subprocess.DEVNULL,
                                    env={"PATH": os.environ["PATH"], "JOURNAL_STREAM": f"{stream.st_dev}:{stream.st_ino}"})
            os.close(write)
            text = lines.read()
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("<3>EAL: invalid parameter for --lcores", text.splitlines(), text)
