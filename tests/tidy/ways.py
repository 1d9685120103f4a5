"""docs/architecture.md follows four ways through the code, hop by hop: the functions that it names are in their files."""

import os
import re

_DOCUMENT = os.path.join("docs", "architecture.md")
_SECTION = re.compile(r"^## Four ways.*?(?=^## )", re.MULTILINE | re.DOTALL)
_HOP = re.compile(r"`([\w/]+\.(?:h|cc))` \(((?:`\w+`(?:, )?)+)\)")


def check(root, document=None):
    if document is None:
        with open(os.path.join(root, _DOCUMENT), encoding="utf-8") as text:
            document = text.read()
    section = _SECTION.search(document)
    if section is None:
        return {"ways": [f"{_DOCUMENT}: the four ways are gone"]}
    return {"ways": list(_problems(root, section.group(0)))}


def _problems(root, section):
    for path, functions in _HOP.findall(section):
        try:
            with open(os.path.join(root, path), encoding="utf-8") as text:
                code = text.read()
        except OSError:
            yield f"{_DOCUMENT}: {path} isn't there"
            continue
        for function in re.findall(r"\w+", functions):
            # Its definition: calls don't begin in the first column, save that members of classes may.
            indent = "(?:  )?" if path.endswith(".h") else ""
            if not re.search(rf"^{indent}(?! )[\w:<>&*\[\] ,~]*\b{function}\(", code, re.MULTILINE):
                yield f"{_DOCUMENT}: {path} has no {function}()"
