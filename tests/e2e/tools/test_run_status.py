"""The exit status of `uroce run`, and what it says and makes where no daemon answers."""

import os
import shutil

from harness.case import E2eCase
from harness.process import wait_until

_NOBODY = 65534


class RunStatus(E2eCase):
    def test_exit_code_is_the_commands(self):
        daemon = self.wire("loopback").server.daemon
        self.assertEqual(self.uroce("run", "--", "sh", "-c", "exit 42", daemon=daemon).returncode, 42)

    def test_a_command_that_is_not_found(self):
        """As in shells: 126 only where a file was found. A folder of PATH that this user can't search is none."""
        self.need_root("the folder is another user's")
        os.chmod(self.folder, 0o755)
        os.mkdir(f"{self.folder}/closed", 0o700)
        with open(f"{self.folder}/plain", "w", encoding="utf-8"):
            pass
        options = {"user": _NOBODY, "group": _NOBODY, "extra_groups": [], "cwd": "/",
                   "env": {"PATH": f"{self.folder}/closed:{self.folder}:{os.environ['PATH']}"}}
        for command, status, words in (("nosuchcmd", 127, "can't run nosuchcmd: No such file"), ("plain", 126, "can't run plain: Permission denied"),
                                       (f"{self.folder}/closed/nosuchcmd", 126, "Permission denied")):
            with self.subTest(command):
                answer = self.uroce("run", "--no-tree", "--", command, **options)
                self.assertIn(words, answer.stderr)
                self.assertEqual(answer.returncode, status)

    def test_library_of_the_tree_is_missing(self):
        """One sentence, and the command runs, where only libibverbs was built or installed."""
        os.makedirs(f"{self.folder}/apps")
        shutil.copy(self.tree.uroce, f"{self.folder}/apps/uroce")
        os.mkdir(f"{self.folder}/verbs_shim")
        shutil.copy(f"{self.tree.shim}/libibverbs.so.1", f"{self.folder}/verbs_shim")
        self.tree.uroce = f"{self.folder}/apps/uroce"
        answer = self.uroce("run", "--", "sh", "-c", "ibv_devices | grep -c uroce0; ls -d /; echo $LD_PRELOAD", daemon=self.wire("loopback").server.daemon)
        self.assertEqual((answer.stdout, answer.returncode), ("1\n/\n\n", 0))
        self.assertRegex(answer.stderr, r"\Auroce run: /sys shows no card: can't read the library \S+/verbs_shim/liburoce_outside.so: No such file[^\n]*\n\Z")

    def test_the_tree_with_a_group_of_ones_own(self):
        """Where new files are writable for one's group (umask 002, as on Ubuntu), the command's still are, and the tree isn't."""
        answer = self.uroce("run", "--", "sh", "-c", "ls /sys/class/infiniband; umask", daemon=self.wire("loopback").server.daemon, umask=0o002)
        self.assertEqual((answer.stdout, answer.stderr), ("uroce0\n0002\n", ""))

    def test_the_tree_where_the_usual_folder_is_anothers(self):
        """And a daemon answers: the card's files are in a new folder, which goes with the command."""
        self.need_root("the usual folder is another user's")
        user = 61_236
        usual = f"/tmp/uroce-{user}"
        self.addCleanup(shutil.rmtree, usual, ignore_errors=True)
        os.mkdir(usual, 0o700)
        os.chown(usual, _NOBODY, _NOBODY)
        os.chmod(self.folder, 0o755)
        daemon = self.wire("loopback").server.daemon
        answer = self.uroce("run", "--", "sh", "-c", "ls /sys/class/infiniband; echo $UROCE_TREE", user=user, group=user, extra_groups=[], cwd="/",
                            env={"PATH": os.environ["PATH"], "UROCE_SOCKET": daemon.socket})
        self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stdout)
        self.assertRegex(answer.stdout, r"\Auroce0\n/tmp/uroce-run-....../uroce-tree-\S+\n\Z")
        wait_until(lambda: not os.path.exists(os.path.dirname(answer.stdout.split()[1])), 30, "the end of the keeper")

    def test_a_private_daemon_is_told_of(self):
        """Also without a terminal, with both places where another one was looked for."""
        if os.path.exists("/run/uroce/uroce.sock"):
            self.skipTest("this machine has a daemon")
        environment = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": self.folder}
        answer = self.uroce("run", "--no-tree", "--", "true", env=environment)
        self.assertEqual(answer.stderr, f"uroce run: no daemon answers at /run/uroce/uroce.sock or {self.folder}/uroce.sock; "
                                        "using a private loopback one, which reaches only what this command starts\n")
        self.assertEqual(self.uroce("run", "--no-tree", "--", "true", env={**environment, "UROCE_QUIET": "1"}).stderr, "")
        self.assertIn(f"no daemon listens on /run/uroce/uroce.sock or {self.folder}/uroce.sock: start it", self.uroce("addr", env=environment).stderr)

    def test_a_relative_socket(self):
        """The command finds it also in another folder."""
        daemon = self.wire("loopback").server.daemon
        answer = self.uroce("run", "--no-tree", "--", "sh", "-c", "cd / && ibv_devinfo", cwd=os.path.dirname(daemon.socket),
                            env={**os.environ, "UROCE_SOCKET": os.path.basename(daemon.socket)})
        self.assertIn("PORT_ACTIVE", answer.stdout, answer.stderr)
