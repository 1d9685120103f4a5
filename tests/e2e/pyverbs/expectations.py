"""What docs/pyverbs.md promises about the suite: its tables are read here, so that page and run can't disagree."""

import re
from fnmatch import fnmatchcase

_ROW = re.compile(r"^\| `(test_[\w.*?]+)` \| (.+) \|$", re.MULTILINE)
_FLOOR = re.compile(r"at least \*\*(\d+)\*\* pass")
_NEWER = "## Newer versions"  # a chapter for each release, of what is otherwise there


class Expectations:
    """Debian 12's, or those of a chapter of its own: "Debian 13"."""

    def __init__(self, page, release=""):
        with open(page, encoding="utf-8") as text:
            content, newer = text.read().split(_NEWER)
        chapter = newer.split(f"### {release}")[1].split("###")[0] if release else ""
        rows = dict(_ROW.findall(content + chapter))
        self.modules_left_out = [name for name in rows if "." not in name]
        self.skipped = {pattern: reason for pattern, reason in rows.items() if "." in pattern}
        self.passed_min = int(_FLOOR.search(chapter or content).group(1))

    def problems(self, outcomes):
        """One line each; none: all as promised."""
        for name, (outcome, text) in outcomes.items():
            if outcome == "skipped" and not self._may_skip(name):
                yield f"{name} was skipped ({text}), but docs/pyverbs.md doesn't list it"
            elif outcome in ("failed", "error"):
                yield f"{name}: {outcome}: {text.strip().splitlines()[-1]}"
        passed = sum(outcome == "passed" for outcome, _ in outcomes.values())
        if passed < self.passed_min:
            yield f"{passed} tests passed; docs/pyverbs.md promises at least {self.passed_min}"
        for pattern in self.skipped:
            if not any(fnmatchcase(name, pattern) for name in outcomes):
                yield f"docs/pyverbs.md lists {pattern}, but no test has this name"

    def _may_skip(self, name):
        return any(fnmatchcase(name, pattern) for pattern in self.skipped)
