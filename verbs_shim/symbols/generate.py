#!/usr/bin/env python3
"""generate.py map|stubs TABLE OUT: from symbols.table, the linker's version script, or the stubs (versioned_names.cc includes them)."""

import sys

from table import Table


def version_script(table):
    lines = []
    before = ""
    for node in table.public_nodes():
        names = sorted(symbol.name for symbol in table.symbols if symbol.node == node and symbol.kind == "real")
        # Compiled with their versions, and saved from "local: *". As patterns: a name itself would draw in the real function,
        # which stands in a later node.
        names += sorted(f"[{symbol.name[0]}]{symbol.name[1:]}" for symbol in table.symbols
                        if symbol.node == node and symbol.kind == "old")
        lines += [f"{node} {{", *(["  global:"] if names else []), *(f"    {name};" for name in names)]
        lines += [] if before else ["  local:", "    *;"]
        lines += [f"}}{before};"]
        before = f" {node}"
    # What they have is versioned where it is compiled.
    return lines + [f"{node} {{ }};" for node in table.private_nodes()]


def stubs(table):
    lines = []
    for symbol in table.symbols:
        if symbol.kind == "real" and symbol.node != "private":
            continue
        alias = f"{symbol.kind}_{symbol.name}"
        if symbol.kind == "refused":
            lines.append(f'REFUSED_{returns(symbol)}({alias}, "{symbol.name}", "{table.sentences[symbol.why]}")')
        elif symbol.kind != "real":
            lines.append(f"SILENT_{returns(symbol)}({alias})")
        lines += [f'VERSION({alias}, "{symbol.name}{version}")' for version in table.versions(symbol)]
    for version in table.private_versions:
        lines.append(f'VERSION(real_verbs_register_driver, "verbs_register_driver_{version}@@IBVERBS_PRIVATE_{version}")')
    return lines


def returns(symbol):
    return {"errno": "ERRNO", "-1": "MINUS_ONE", "null": "NULL"}[symbol.returns]


def main():
    what, table, out = sys.argv[1], Table(sys.argv[2]), sys.argv[3]
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join({"map": version_script, "stubs": stubs}[what](table)) + "\n")


if __name__ == "__main__":
    main()
