"""What suites of dts/ may import, and what their cases' docstrings must contain (shared facts on DTS; dts/README.md)."""

import ast
import os
import re

_UPSTREAM = {
    "framework.test_suite": {"TestSuite", "BaseConfig", "func_test"},
    "api.test": {"verify", "verify_else_skip", "log", "skip", "fail"},
    "api.packet": {"send_packets", "send_packet_and_capture", "send_packets_and_capture"},
    "api.capabilities": {"LinkTopology", "requires_link_topology"},
    "framework.remote_session.dpdk_shell": {"DPDKShell"},
    "framework.params.eal": {"EalParams"},
}
_FREE = ("uroce_dts", "scapy")
_STANDARD = {"ipaddress", "os", "socket", "time", "struct", "zlib", "glob", "dataclasses", "pathlib", "subprocess", "tempfile", "json"}


def _imports(path, tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in names:
            root = module.split(".")[0]
            if root in _FREE or root in _STANDARD or name in _UPSTREAM.get(module, ()):
                continue
            yield f"{path}:{node.lineno}: {module}{f'.{name}' if name else ''} isn't among what DTS gives to suites"


def _docstrings(path, tree):
    for node in ast.walk(tree):
        decorators = [ast.unparse(item) for item in getattr(node, "decorator_list", [])]
        if isinstance(node, ast.FunctionDef) and "func_test" in decorators:
            text = ast.get_docstring(node) or ""
            if not re.search(r"^Steps:\n +\S", text, re.M) or not re.search(r"^Verify:\n +\S", text, re.M):
                yield f"{path}:{node.lineno}: {node.name}'s docstring needs Steps: and Verify:"


def _stand_ins(files):
    """Each public name that a stand-in defines for suites is one of upstream's."""
    root = "dts/local/stand_ins/"
    for path, text in files.items():
        module = path.removeprefix(root).removesuffix(".py").replace("/", ".")
        if not path.startswith(root) or module.endswith("__init__"):
            continue
        for node in ast.parse(text).body:
            name = getattr(node, "name", "_")
            if not name.startswith("_") and name not in _UPSTREAM.get(module, set()) | _RUNNERS.get(module, set()):
                yield f"{path}:{node.lineno}: upstream's {module} has no {name}, or suites may not use it"


# What dts/local/run.py itself needs of them.
_RUNNERS = {"api.packet": {"open_wire"}, "api.test": {"TestFailed", "TestSkipped"}}


def check(files):
    """`files`: {path: text} of the Python files below dts/."""
    suites = {path: ast.parse(text) for path, text in files.items()
              if path.startswith(("dts/tests/", "dts/uroce_dts/"))}
    packages = [path for path in files if os.path.basename(path) == "__init__.py" and path.startswith("dts/tests/")]
    return {
        "imports of dts suites": [problem for path, tree in suites.items() for problem in _imports(path, tree)],
        "Steps and Verify of dts cases": [problem for path, tree in suites.items() for problem in _docstrings(path, tree)],
        "stand-ins of dts": list(_stand_ins(files)),
        "dts/tests is a namespace package": [f"{path}: remove it" for path in packages],
    }
