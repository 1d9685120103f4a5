"""The manual pages have every option that the programs' --help lists."""

import os
import re
import subprocess

from harness.case import E2eCase
from harness.places import ROOT

_SUBCOMMANDS = ("run", "integrity", "status", "cm", "limits", "odp", "errors", "addr", "tree", "replay", "doctor", "top", "capture", "report", "check")
_ASKING = {"doctor": ("doctor", "PEER")}  # the one whose own program has more options


def _page(name):
    with open(os.path.join(ROOT, "apps", "man", name), encoding="utf-8") as page:
        return page.read().replace("\\-", "-")


def _section_of(page, subcommand):
    """What is about this one: its lines of the synopsis, and its paragraphs of the description."""
    paragraphs = re.split(r"^\.(?:br|TP|SH .*|PP)\n", page, flags=re.MULTILINE)
    return "\n".join(text for text in paragraphs if text.startswith(f".B uroce {subcommand}\n"))


class Manual(E2eCase):
    def _options(self, *command):
        answer = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
                                env={"PATH": os.environ["PATH"], "UROCE_SOCKET": f"{self.folder}/none.sock"})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        lines = answer.stdout.partition("\nOptions:\n")[2].split("\n\n")[0]
        names = {name for words in re.findall(r"^  (-\S+)", lines, flags=re.MULTILINE) for name in words.split(",")}
        self.assertIn("--help", names, answer.stdout)
        return names - {"-h", "--help"}

    def _expect_all(self, options, text):
        missing = [option for option in sorted(options) if not re.search(rf"(?<![\w-]){option}(?![\w-])", text)]
        self.assertEqual(missing, [])

    def test_of_the_subcommands(self):
        page = _page("uroce.1")
        listed = self.uroce("--help").stdout.partition("\nSubcommands:\n")[2].split("\n\n")[0]
        self.assertEqual(set(re.findall(r"^  ([a-z]+) ", listed, flags=re.MULTILINE)), set(_SUBCOMMANDS))
        for name in _SUBCOMMANDS:
            with self.subTest(name):
                about = _section_of(page, name)
                self.assertGreaterEqual(about.count(f".B uroce {name}\n"), 2, "synopsis and description")
                self._expect_all(self._options(self.tree.uroce, *_ASKING.get(name, (name,))), about)

    def test_of_the_daemon(self):
        self._expect_all(self._options(*self.tree.uroced), _page("uroced.8"))
