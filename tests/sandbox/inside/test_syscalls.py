"""Raw system calls: the tables against the kernel's headers, and each call done for real in a fresh process."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from needs import lack, needs

from verigym.sandbox.inside.walls import syscalls

# The sandbox without the rest of the package, which takes ten times as long to import.
ALONE = f"""
import sys, types
sys.modules.update({{name: types.ModuleType(name) for name in ("verigym", "verigym.sandbox")}})
sys.modules["verigym.sandbox"].__path__ = [{str(Path(__file__).parents[3] / "sandbox")!r}]
"""

root = needs("root")


def fresh(code: str, *arguments: str) -> Any:
    """Run code in a fresh process and return its `result`."""
    imports = "import json, os, sys\nfrom verigym.sandbox.inside.walls import syscalls as s"
    source = f"{ALONE}{imports}\n{code}\nprint(json.dumps(result))"
    done = subprocess.run([sys.executable, "-c", source, *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_errors_carry_the_number_and_the_name() -> None:
    with pytest.raises(OSError, match="Bad file descriptor: setns") as caught:
        syscalls.setns(9999)
    assert caught.value.errno == errno.EBADF
    with pytest.raises(OSError, match="no_such_call") as caught:
        syscalls.syscall("no_such_call")
    assert caught.value.errno == errno.ENOSYS


def test_descriptors_are_closed_but_those_to_keep() -> None:
    code = """
fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
keep = {1, fds[2], fds[3], fds[6]}
s.close_range_except(3, keep)
def is_open(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True
result = [is_open(fd) for fd in (0, 1, 2, *fds)]
"""
    assert fresh(code) == [True] * 3 + [False, False, True, True, False, False, True, False]


@root
def test_capabilities_go_for_good() -> None:
    code = """
s.drop_capabilities()
result = {k: int(v, 16) for k, _, v in (line.partition(":") for line in open("/proc/self/status")) if k.startswith("Cap")}
try: os.chown("/proc/self/cwd", 1, 1)
except OSError as error: result["chown"] = error.errno
import subprocess
result["child"] = subprocess.run(["grep", "CapEff", "/proc/self/status"], capture_output=True, text=True).stdout.split()[1]
"""
    result = fresh(code)
    assert result.pop("chown") == errno.EPERM
    assert int(result.pop("child"), 16) == 0, "root is nobody special any more"
    assert result == dict.fromkeys(["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"], 0)


@root
@pytest.mark.parametrize("way", ["mount_read_only", "_remount_read_only"])
def test_mounts_become_read_only_with_those_beneath(way: str, tmp_path: Any) -> None:
    code = f"""
s.unshare(s.CLONE_NEWNS)
s.mount("none", "/", None, s.MS_REC | s.MS_PRIVATE)
place = sys.argv[1]
s.mount("tmpfs", place, "tmpfs", 0, "size=1m")
os.mkdir(place + "/a ü")
s.mount("tmpfs", place + "/a ü", "tmpfs", s.MS_NOEXEC, "size=1m")
s.{way}(place)
result = []
for path in (place, place + "/a ü"):
    try: os.mkdir(path + "/x")
    except OSError as error: result.append(error.errno)
    flags = os.statvfs(path).f_flag
    result += [bool(flags & bit) for bit in (os.ST_NOSUID, os.ST_NODEV, os.ST_NOEXEC)]
s.umount2(place, s.MNT_DETACH)
os.mkdir(place + "/x")
"""
    assert fresh(code, str(tmp_path)) == [errno.EROFS, True, True, False, errno.EROFS, True, True, True]


@root
def test_the_host_name_is_the_namespace_s() -> None:
    assert fresh("s.unshare(s.CLONE_NEWUTS); s.sethostname('sandbox'); result = os.uname().nodename") == "sandbox"
    assert os.uname().nodename != "sandbox"


HEADERS = {
    "x86_64": "#include <asm/unistd_64.h>\n",
    "aarch64": "#define __BITS_PER_LONG 64\n"
    "#define __ARCH_WANT_MEMFD_SECRET\n#define __ARCH_WANT_SYS_CLONE3\n#include <asm-generic/unistd.h>\n",
}


@needs("gcc")
@pytest.mark.parametrize("architecture", HEADERS)
def test_the_numbers_are_those_of_the_kernel(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run(["gcc", "-E", "-dM", "-xc", "-"], input=HEADERS[architecture], capture_output=True, text=True)
    if done.returncode:
        lack("elsewhere", "the kernel's headers for it are not installed")
    defined = dict(re.findall(r"#define (__NR\w*) (\S+)", done.stdout))
    real = {}
    for name, value in defined.items():
        while value in defined:
            value = defined[value]
        if value.isdigit():
            real[re.sub("^__NR(3264)?_", "", name)] = int(value)
    monkeypatch.setattr(syscalls, "ARCHITECTURE", architecture)
    numbers = syscalls._numbers()
    assert len(numbers) > 85
    assert {name: number for name, number in numbers.items() if real.get(name, number) != number} == {}
    assert len(numbers.keys() & real.keys()) > 80
