"""The exit status of `uroce run`."""

import os
import shutil

from harness.case import E2eCase

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
