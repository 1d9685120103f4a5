"""Every reason that our code can give (drop, NAK, completion status) is hit by some test.

A test hits a reason when it names it: by its enumerator, by the quoted name that counters show, or in a conformance
case (tests/conformance/cases/README.md) as drop=NAME, NAK:code or status=NAME.
"""

import re

_DROP_LINE = re.compile(r'^UROCE_DROP\((k\w+),\s*"(\w+)"', re.MULTILINE)
_ENUMS = ("Nak", "WcStatus")


def _enumerators(files, enum):
    for path, text in files.items():
        match = re.search(rf"enum class (?:\[\[\w+\]\] )?{enum}\b[^{{;]*\{{([^}}]*)\}}", text)
        if match and not path.startswith("tests/"):
            body = re.sub(r"//[^\n]*", "", match.group(1))
            return re.findall(r"\b(k[A-Z]\w*)", body)
    return []


def _used(files, folder_is_tests, words):
    """How often code qualifies or names any of `words`, outside of the definitions."""
    pattern = re.compile("|".join(words))
    return any(pattern.search(text) for path, text in files.items()
               if path.startswith("tests/") == folder_is_tests and not path.endswith(".def"))


def _problems(files, enum, names):
    for enumerator, text_name, case_word in names:
        in_code = [rf"{enum}::{enumerator}\b"]
        in_tests = [rf"\b{enumerator}\b", rf"\b{case_word}\b"] + ([rf'"{text_name}"'] if text_name else [])
        if _used(files, False, in_code) and not _used(files, True, in_tests):
            yield f"{enum}::{enumerator} is given by our code, but no test names it"


def _case_word(enum, name, code):
    """How a conformance case says it: NAK:2, status=LOC_LEN_ERR."""
    return f"NAK:{code}" if enum == "Nak" else "status=" + re.sub(r"(?<!^)(?=[A-Z])", "_", name[1:]).upper()


def check(files):
    drops = [(*match.groups(), f"drop={match.group(2)}") for path, text in files.items() if path.endswith("drop.def")
             for match in _DROP_LINE.finditer(text)]
    results = {"drop reasons are tested": list(_problems(files, "Drop", drops))}
    for enum in _ENUMS:
        names = [(name, None, _case_word(enum, name, code)) for code, name in enumerate(_enumerators(files, enum))
                 if name != "kSuccess"]
        results[f"{enum} reasons are tested"] = list(_problems(files, enum, names))
    return results
