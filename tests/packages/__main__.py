"""Makes the packages of debian/ for a release of Debian, installs them in a clean root of it, and runs debian/tests there.

  /usr/bin/python3 tests/packages                       Debian 12
  /usr/bin/python3 tests/packages --suite trixie        another one; repeat it for several
  /usr/bin/python3 tests/packages --keep FOLDER         roots and packages stay there, and are taken from there the next time

Needs root, mmdebstrap and a Debian archive ($UROCE_DEBIAN_ARCHIVE, or deb.debian.org). tests/run.sh --long runs it.
"""

import argparse
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "runner"))

from container import container_case  # noqa: E402  (the path above comes first)
from release import ARCHIVE, Release, archive_has  # noqa: E402
from report import Case, close_part, print_case  # noqa: E402
from service import service_case  # noqa: E402

_SUITES = ("bookworm", "trixie")


def _options():
    parser = argparse.ArgumentParser(prog="tests/packages", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", help="bookworm, trixie (default: bookworm)")
    parser.add_argument("--keep", help="work in this folder and leave it")
    parser.add_argument("--report", help="write the cases here, for tests/run.sh")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # always packages
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    return parser.parse_args()


def _suite_cases(suite, folder, jobs):
    if not archive_has(suite):
        return [Case(suite, "skipped", 0, f"{ARCHIVE} doesn't answer for {suite}")]
    release = Release(ROOT, suite, folder, jobs)
    cases = []
    for step in (release.make, release.lint, release.install, release.quickstart, release.programs):
        cases.append(release.case(step))
        if cases[-1].outcome == "failed" and step in (release.make, release.install):
            return cases  # nothing to go on with
    return [*cases, service_case(release, release.log_path("service")), container_case(release)]


def main():
    options = _options()
    if os.geteuid() != 0:
        sys.exit("tests/packages: only root can make a root of another release")
    with tempfile.TemporaryDirectory(prefix="uroce-packages-") as temporary:
        folder = os.path.abspath(options.keep) if options.keep else temporary
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)  # the ordinary user of debian/tests/programs gets through
        cases = []
        for suite in options.suite or _SUITES[:1]:
            cases += _suite_cases(suite, folder, options.jobs)
    for case in cases:
        if options.report is None:
            reason = f": {case.reason}" if case.outcome == "skipped" else ""
            print(f"  {case.outcome:8} {case.seconds:6.1f} s  {case.name}{reason}")
        print_case("packages", case)
    return close_part(cases, options.report)


if __name__ == "__main__":
    sys.exit(main())
