"""What `meson install` puts where, and that it runs from there."""

import json
import os
import subprocess

from harness.case import E2eCase
from harness.elf_files import glibc_wanted, installed_elf_files, missing_hardening
from harness.process import Process, wait_until
from harness.wires import free_tcp_port

_FILES = ("bin/uroce", "sbin/uroced", "share/man/man8/uroced.8", "share/man/man1/uroce.1", "share/man/man5/uroce.toml.5",
          "lib/systemd/system/uroced.service", "share/bash-completion/completions/uroce", "share/bash-completion/completions/uroced", "share/uroce/uroce-dashboard.json",
          "share/uroce/uroce.toml", "etc/uroce/uroce.toml")


class Install(E2eCase):
    def setUp(self):
        super().setUp()
        self._install()
        self.prefix = f"{self.folder}/usr/local"

    def _install(self):
        answer = subprocess.run(["meson", "install", "-C", self.tree.root, "--no-rebuild", "--destdir", self.folder],
                                capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)

    def _find(self, name):
        found = [os.path.join(folder, name) for folder, _, files in os.walk(self.folder) if name in files]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_files(self):
        for path in _FILES:
            self.assertTrue(os.path.exists(f"{self.prefix}/{path}"), path)
        self.assertIn("uroce/libibverbs.so.1", self._find("libibverbs.so.1"))
        self.assertEqual(self._find("uroce.json"), f"{self.folder}/etc/cdi/uroce.json")  # where containers' runtimes look
        with open(f"{self.prefix}/lib/systemd/system/uroced.service", encoding="utf-8") as unit:
            self.assertIn("ExecStart=/usr/local/sbin/uroced", unit.read())

    def test_an_installation_keeps_the_configuration(self):
        """And brings the one that it has beside it."""
        with open(f"{self.prefix}/etc/uroce/uroce.toml", "w", encoding="utf-8") as file:
            file.write("# the administrator's\n")
        self._install()
        with open(f"{self.prefix}/etc/uroce/uroce.toml", encoding="utf-8") as file:
            self.assertEqual(file.read(), "# the administrator's\n")
        with open(f"{self.prefix}/share/uroce/uroce.toml", encoding="utf-8") as file:
            self.assertIn("[[port]]", file.read())

    def test_libraries_run_in_older_images(self):
        """Made on Debian 12 (glibc 2.36), what containers get runs on Ubuntu 22.04's glibc."""
        if os.confstr("CS_GNU_LIBC_VERSION") != "glibc 2.36":
            self.skipTest(f"made with {os.confstr('CS_GNU_LIBC_VERSION')}, not with Debian 12's")
        for name in ("libibverbs.so.1", "liburoce_outside.so"):
            self.assertLessEqual(glibc_wanted(self._find(name)), (2, 35), name)

    def test_programs_are_hardened(self):
        """PIE, RELRO, a non-executable stack, stack protector, fortified calls and marked functions are in all programs."""
        programs = [program for program in installed_elf_files(self.prefix)]
        names = {os.path.basename(program) for program in programs}
        self.assertLessEqual({"uroced", "uroce", "uroce-console", "uroce-replay", "uroce-check", "uroce-doctor", "uroce-capture", "uroce-top"}, names)
        self.assertTrue(any(name.startswith("libibverbs.so") for name in names), names)
        for program in programs:
            with self.subTest(os.path.basename(program)):
                self.assertEqual(missing_hardening(program), [])

    def test_quickstart_builds_what_is_installed(self):
        """The target `programs`, which quickstart builds, has every program and library that is installed, and the examples."""
        answer = subprocess.run(["meson", "introspect", "--targets", self.tree.root], capture_output=True, text=True, timeout=60, check=True)
        targets = [one for one in json.loads(answer.stdout) if one["type"] in ("executable", "shared library")]
        wanted = {os.path.relpath(one["filename"][0], self.tree.root) for one in targets
                  if one["installed"] or one["defined_in"].endswith("apps/examples/meson.build")}
        built = subprocess.run(["ninja", "-C", self.tree.root, "-t", "query", "programs"], capture_output=True, text=True, timeout=60, check=True)
        self.assertLess(10, len(wanted))
        self.assertLessEqual(wanted, set(built.stdout.split()))

    def test_pkg_config(self):
        folder = os.path.dirname(self._find("uroce.pc"))
        answer = subprocess.run(["pkg-config", "--libs", "uroce"], capture_output=True, text=True, check=False,
                                env={**os.environ, "PKG_CONFIG_PATH": folder})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("libibverbs.so.1", answer.stdout)

    def test_runs(self):
        """`uroce run` of the installed tree finds the installed shim and daemon."""
        script = ("ibv_rc_pingpong -g 1 -c -n 50 -p $PORT >/dev/null & server=$!; "
                  "until ibv_rc_pingpong -g 1 -c -n 50 -p $PORT 127.0.0.1; do "
                  "kill -0 $server || exit 1; done; wait $server; "
                  "echo $LD_LIBRARY_PATH")
        answer = subprocess.run([f"{self.prefix}/bin/uroce", "run", "--", "bash", "-c", script],
                                capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
                                env={"PATH": os.environ["PATH"], "TMPDIR": self.folder, "PORT": str(free_tcp_port())})
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn(self.folder, answer.stdout.splitlines()[-1])

    def test_integrity(self):
        """`uroce integrity` of the installed tree, over a daemon of its own."""
        answer = subprocess.run([f"{self.prefix}/bin/uroce", "integrity", "--ops", "500"],
                                capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
                                env={"PATH": os.environ["PATH"], "TMPDIR": self.folder})
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("500 operations, 0 errors", answer.stdout)

    def test_completion(self):
        """Bash completes what the programs' --help lists."""
        for words, expected in (("uroce st", "status"), ("uroce status --j", "--json"), ("uroce addr a", "add"), ("uroce check --j", "--json"), ("uroce doc", "doctor"), ("uroce capture --dr", "--drops"), ("uroce capture --on", "--on-error"), ("uroce report --ht", "--html"), ("uroce integrity --w", "--windows"), ("uroce doctor --gi", "--gid-index"), ("uroce top --ba", "--batch"),
                                ("uroce run --net --no", "--no-tree"), ("uroce run --net -- ibv_devinf", "ibv_devinfo"), ("uroced --rec", "--recovery"), ("uroced --idle p", "poll")):
            with self.subTest(words):
                command = words.split()[0]
                script = (f"source {self.prefix}/share/bash-completion/completions/uroce && COMP_WORDS=({words}) && COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && "
                          f"_{command} {command} && echo ${{COMPREPLY[*]}}")
                answer = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=False,
                                        env={"PATH": f"{self.prefix}/bin:{self.prefix}/sbin:{os.environ['PATH']}"})
                self.assertEqual(set(answer.stdout.split()), {expected}, answer.stderr)

    def test_example_configuration(self):
        """The installed configuration is one that the daemon accepts."""
        socket = f"{self.folder}/example.sock"
        daemon = Process([f"{self.prefix}/sbin/uroced", "--config", f"{self.prefix}/etc/uroce/uroce.toml", "--socket", socket],
                         "uroced", self.logs)
        self.addCleanup(daemon.end)
        wait_until(lambda: os.path.exists(socket) or daemon.ended(), 30, "the daemon's socket")
        self.assertFalse(daemon.ended(), daemon.err())
