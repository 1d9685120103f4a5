"""symbols.table, read: which names the shim exports, in which version nodes, and what stands behind each."""

import dataclasses

_STUBS = ("refused", "old", "private")


@dataclasses.dataclass(frozen=True)
class Symbol:
    name: str
    node: str  # "IBVERBS_1.1", or "private"
    since: int
    kind: str
    returns: str  # of a stub
    why: str  # key of a sentence, or nothing


class Table:
    def __init__(self, path):
        self.sentences = {}
        self.private_versions = []
        self.symbols = []
        with open(path, encoding="utf-8") as text:
            for line in text:
                self._read(line.split("#")[0].split())

    def _read(self, words):
        if not words:
            return
        if words[0] == "why":
            self.sentences[words[1]] = " ".join(words[2:])
        elif words[0] == "private":
            self.private_versions.append(int(words[1]))
        else:
            name, node, since, kind, *rest = words
            returns, why = (rest + ["", ""])[:2]
            if kind not in ("real", *_STUBS) or (kind == "refused") != bool(why):
                raise ValueError(f"symbols.table: {' '.join(words)}")
            self.symbols.append(Symbol(name, node, int(since), kind, returns, why))

    def public_nodes(self):
        """In the order of their versions, each built upon the one before."""
        return list(dict.fromkeys(symbol.node for symbol in self.symbols if symbol.node != "private"))

    def private_nodes(self, since=0):
        """Those that were in use in version `since` or later: each until the next one."""
        ends = [following - 1 for following in self.private_versions[1:]] + [since]
        return [f"IBVERBS_PRIVATE_{version}" for version, end in zip(self.private_versions, ends) if end >= since]

    def versions(self, symbol):
        """The versions of a name as `readelf --dyn-syms` writes them: `@@NODE` is the one that new programs bind."""
        if symbol.node != "private":
            return [("@" if symbol.kind == "old" else "@@") + symbol.node]
        nodes = self.private_nodes(symbol.since)
        return ["@" + node for node in nodes[:-1]] + ["@@" + nodes[-1]]

    def exported(self):
        """Every name with a version, and the nodes themselves."""
        names = {symbol.name + version for symbol in self.symbols for version in self.versions(symbol)}
        names |= {f"verbs_register_driver_{version}@@IBVERBS_PRIVATE_{version}" for version in self.private_versions}
        return names | {*self.public_nodes(), *self.private_nodes()}
