"""Root's sandboxes for uid 4242: the layers of an ordinary user, in one short program a back end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs import lack, needs

SOURCE = Path(__file__).resolve().parents[2] / "src" / "verigym"
USER = 4242
FORKS = """
import os, time
n = 0
try:
    while n < 200:
        if not os.fork(): time.sleep(600)
        n += 1
finally:
    print(n)
"""

# The sandbox needs the standard library and pydantic: the package's own __init__, which needs more, is left out.
ALONE = """
import json, shutil, sys, types
package = types.ModuleType("verigym"); package.__path__ = [sys.argv[1]]; sys.modules["verigym"] = package
from verigym.sandbox import Limits, Program, SandboxFailure, open_sandbox
box = open_sandbox(sys.argv[2])
try:
    box.check()
except SandboxFailure as error:
    print(json.dumps({"cannot": str(error)})); sys.exit()
limits = Limits(wall_s=60, cpu_s=1, memory_mb=256, output_kb=64, processes=10)
forks = sys.argv[3]
out = {"level": box.level}
for name, language, source in [
    ("hello", "python", "print(int(input()) * 2)"), ("endless", "python", "while True: pass"),
    ("greedy", "python", "a = []\\nwhile True: a.append(bytearray(1 << 20))"), ("forks", "python", forks),
    ("bash", "bash", "read n; echo $((n * 2)); id -u; grep CapEff /proc/self/status; cat /proc/1/environ"),
    ("c", "c", "#include <stdio.h>\\nint main(void) { puts(\\"c\\"); }"),
]:
    if language == "c" and not shutil.which("gcc"):
        continue
    result = box.run(Program(source=source, language=language), b"4\\n", limits)
    out[name] = [result.status, result.stdout.decode()]
print(json.dumps(out))
"""


@needs("root")
@pytest.mark.parametrize("backend", ["local", "bubblewrap"])
@pytest.mark.slow
def test_as_an_ordinary_user(backend: str) -> None:
    found = None
    for interpreter in (os.path.realpath(sys.executable), f"/usr/bin/python3.{sys.version_info.minor}", "/usr/bin/python3"):
        command = [interpreter, "-c", ALONE, str(SOURCE), backend, FORKS]
        try:
            found = subprocess.run(
                command, user=USER, group=USER, extra_groups=[], cwd="/", env={"PATH": "/usr/bin:/bin"}, capture_output=True
            )
            break
        except (PermissionError, FileNotFoundError):
            continue
    if found is None or b"No module named 'pydantic'" in found.stderr:
        lack("elsewhere", f"no interpreter with pydantic that uid {USER} may run")
    assert found.returncode == 0, found.stderr.decode()
    out = json.loads(found.stdout)
    if "cannot" in out:
        lack("bubblewrap" if backend == "bubblewrap" else "sandbox", f"for uid {USER}: {out['cannot']}")
    assert out["hello"] == ["ok", "8\n"]
    assert out["endless"][0] == "time"
    assert out["greedy"][0] == "memory"
    assert out.get("c", ["ok", "c\n"]) == ["ok", "c\n"]
    status, text = out["forks"]
    assert status == "runtime" and 5 <= int(text) <= 10
    lines = out["bash"][1].split("\n")
    assert lines[0] == "8" and lines[2].endswith("0" * 16), lines
