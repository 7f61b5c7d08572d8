"""Loads the code in `inside` into an isolated Python process, through a small program on the interpreter's command line.

The code arrives as one message and is kept in memory, so the process needs no file of verigym and can run in an empty root
directory, under bubblewrap, or in any container image.
"""

from __future__ import annotations

import binascii
import functools
import importlib.resources
import json
import marshal
import struct
from collections.abc import Mapping
from typing import Any

PACKAGE = "verigym.sandbox.inside"
FLAGS = ("-s", "-S", "-P")  # no user site, no site, no script folder on the path; -I would ignore the hash seed

# argv: a descriptor that yields [4-byte length][JSON], then integer arguments of the entry point, `module:function`.
PROGRAM = """
import binascii, json, marshal, os, sys
from importlib.machinery import ModuleSpec
def read(fd, n):
    data = b""
    while len(data) < n:
        more = os.read(fd, n - len(data))
        if not more: raise SystemExit(3)
        data += more
    return data
fd = int(sys.argv[1])
boot = json.loads(read(fd, int.from_bytes(read(fd, 4), "big")))
class MemoryFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in boot["modules"]:
            return ModuleSpec(name, MemoryFinder, is_package=name in boot["packages"])
    @staticmethod
    def create_module(spec): return None
    @staticmethod
    def exec_module(module):
        name, text = module.__name__, boot["modules"][module.__name__]
        if boot["compiled"]: code = marshal.loads(binascii.a2b_base64(text))
        else: code = compile(text, "<cell>/" + name, "exec", dont_inherit=True, optimize=2)
        exec(code, module.__dict__)
sys.meta_path.insert(0, MemoryFinder)
import importlib
module, function = boot["entry"].split(":")
getattr(importlib.import_module(module), function)(boot["config"], *map(int, sys.argv[2:]))
"""


@functools.cache
def _modules(compiled: bool) -> tuple[dict[str, str], list[str]]:
    packages = ["verigym", "verigym.sandbox", PACKAGE]
    modules: dict[str, str] = {}
    folders = [(PACKAGE, importlib.resources.files(PACKAGE))]
    for package, folder in folders:
        for file in folder.iterdir():
            if file.is_dir() and file.joinpath("__init__.py").is_file():
                packages.append(f"{package}.{file.name}")
                folders.append((packages[-1], file))
            elif file.name.endswith(".py") and file.name != "__init__.py":
                modules[f"{package}.{file.name.removesuffix('.py')}"] = file.read_text(encoding="utf-8")
    modules |= dict.fromkeys(packages, "")
    return ({name: _compiled(name, text) for name, text in modules.items()} if compiled else modules), packages


def _compiled(name: str, source: str) -> str:
    code = compile(source, f"<cell>/{name}", "exec", dont_inherit=True, optimize=2)
    return binascii.b2a_base64(marshal.dumps(code), newline=False).decode("ascii")


def message(entry: str, config: Mapping[str, Any], *, same_python: bool) -> bytes:
    """Return the message that the start-up program `PROGRAM` reads: modules, the entry point and its configuration.

    Args:
        entry: the function to call, as `module:function` within `verigym.sandbox.inside`.
        config: the first argument of that function.
        same_python: whether the started interpreter is the one that runs this process. If so, compiled code is sent, which
            saves 10 ms.
    """
    modules, packages = _modules(same_python)
    whole = {
        "modules": modules,
        "compiled": same_python,
        "packages": packages,
        "entry": f"{PACKAGE}.{entry}",
        "config": dict(config),
    }
    body = json.dumps(whole).encode()
    return struct.pack(">I", len(body)) + body
