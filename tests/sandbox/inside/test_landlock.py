"""Landlock with real files, sockets and processes, each time in a fresh process that binds itself."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held import Held
from needs import lacking, needs

from verigym.sandbox.inside.walls import landlock

# The sandbox without the rest of the package, which takes ten times as long to import.
ALONE = f"""
import sys, types
sys.modules.update({{name: types.ModuleType(name) for name in ("verigym", "verigym.sandbox")}})
sys.modules["verigym.sandbox"].__path__ = [{str(Path(__file__).parents[3] / "sandbox")!r}]
"""

ABI = landlock.abi()
pytestmark = lacking("kernel", ABI == 0, "no Landlock")

BOUND = """
import json, os, select, shutil, signal, socket, subprocess, sys, threading
from verigym.sandbox.inside.walls import landlock, syscalls
def attempt(function, *args):
    try: function(*args)
    except OSError as error: return error.errno
    return 0
def write(path, text="x"):
    with open(path, "w") as f: f.write(text)
def read(path):
    with open(path, "rb") as f: f.read(16)
uid, read_exec, writable, data = json.loads(sys.argv[1])
ruleset = landlock.create(read_exec, writable)
if uid: os.setgroups([]); os.setgid(uid); os.setuid(uid)
syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
def bind(): landlock.restrict(ruleset); os.close(ruleset)
"""
SYSTEM = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/proc", "/no/such/place", "/etc/passwd/none"]
USERS = [pytest.param(0, marks=needs("root")), 4242]


def bound(code: str, uid: int = 0, writable: list[Path] | None = None, **data: Any) -> Any:
    """Run code (which calls `bind()`) in a fresh process, as another user where this one can, and return its `result`."""
    uid = uid if os.geteuid() == 0 else 0
    arguments = json.dumps([uid, SYSTEM, [str(path) for path in writable or []], data])
    source = f"{ALONE}{BOUND}{code}\nprint(json.dumps(result))"
    done = subprocess.run([sys.executable, "-c", source, arguments], capture_output=True, text=True, timeout=600, cwd="/")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def room() -> Iterator[Path]:
    """A directory that everybody may use, with `open` in it to be allowed and `closed` not to be.

    Not below pytest's own: every pytest that starts closes that to others again.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield _furnished(Path(folder))


def _furnished(path: Path) -> Path:
    path.chmod(0o755)
    for name in ("open", "closed"):
        (path / name).mkdir()
        (path / name).chmod(0o777)
        (path / name / "file").write_text("text")
        (path / name / "file").chmod(0o666)
    return path


@pytest.mark.parametrize("uid", USERS)
def test_files_are_what_was_allowed(uid: int, room: Path) -> None:
    code = """
home, away = data["room"] + "/open", data["room"] + "/closed"
bind()
result = {
    "home": [attempt(write, home + "/new"), attempt(read, home + "/file"), attempt(os.mkdir, home + "/d"),
             attempt(os.rename, home + "/new", home + "/d/new"), attempt(os.truncate, home + "/file", 1),
             attempt(os.symlink, "x", home + "/link"), attempt(os.mkfifo, home + "/fifo"),
             attempt(os.link, home + "/file", home + "/hard"),
             attempt(os.unlink, home + "/link"), attempt(shutil.rmtree, home + "/d")],
    "away": [attempt(write, away + "/new"), attempt(read, away + "/file"), attempt(os.listdir, away),
             attempt(os.mkdir, away + "/d"),
             attempt(os.unlink, away + "/file"), attempt(os.symlink, "x", away + "/link")],
    "truncate": attempt(os.truncate, away + "/file", 0),
    "across": [attempt(os.rename, home + "/file", away + "/moved"), attempt(os.link, home + "/file", away + "/hard")],
    "link out": [attempt(os.symlink, away + "/file", home + "/out"), attempt(read, home + "/out")],
    "system": [attempt(read, "/usr/bin/env"), attempt(os.listdir, "/usr"), attempt(subprocess.run, ["/bin/true"])],
    "system written": [attempt(write, "/usr/bin/env"), attempt(write, "/usr/x")],
    "secrets": [attempt(read, "/etc/passwd"), attempt(os.listdir, "/"), attempt(os.listdir, "/root"),
                attempt(os.listdir, "/proc/1/root")],
}
"""
    result = bound(code, uid, [room / "open"], room=str(room))
    assert result["home"] == [0] * 10
    assert result["away"] == [errno.EACCES] * 6
    assert result["truncate"] == (errno.EACCES if ABI >= 3 else 0)
    assert {*result["across"]} <= {errno.EACCES, errno.EXDEV}
    assert result["link out"] == [0, errno.EACCES]
    assert result["system"] == [0, 0, 0]
    assert result["system written"] == [errno.EACCES] * 2
    assert set(result["secrets"]) == {errno.EACCES}
    assert (room / "closed/file").read_text() == "text"


@pytest.mark.parametrize("uid", USERS)
def test_devices_pipes_and_inherited_descriptors_still_work(uid: int, room: Path) -> None:
    code = """
held = open(data["room"] + "/closed/file")
memory = os.memfd_create("m")
bind()
r, w = os.pipe()
def via_proc(): os.close(os.open(f"/proc/self/fd/{w}", os.O_WRONLY))
result = {
    "null": [attempt(write, "/dev/null"), attempt(read, "/dev/null"), attempt(os.isatty, os.open("/dev/null", os.O_RDWR))],
    "others": [attempt(read, "/dev/zero"), attempt(read, "/dev/urandom"), attempt(read, "/dev/random"),
               attempt(write, "/dev/full")],
    "pipe": attempt(via_proc), "memory": attempt(read, f"/proc/self/fd/{memory}"), "held": held.read(),
    "shell": subprocess.run(["/bin/sh", "-c", "echo a > /dev/null; echo b"], capture_output=True, text=True).stdout,
    "bad": [attempt(read, "/dev/tty"), attempt(read, "/dev/kmsg"), attempt(os.listdir, "/dev")],
}
"""
    result = bound(code, uid, [room / "open"], room=str(room))
    assert result["null"] == [0, 0, 0]
    assert result["others"] == [0, 0, 0, errno.ENOSPC]
    assert (result["pipe"], result["memory"], result["held"], result["shell"]) == (0, 0, "text", "b\n")
    # As an ordinary user some of them are refused before Landlock is asked, or are not there at all.
    assert set(result["bad"]) <= {errno.EACCES, errno.EPERM, errno.ENXIO, errno.ENOENT}
    assert result["bad"][2] == errno.EACCES


@needs("root")
def test_no_device_files_even_where_all_else_may_be_made(room: Path) -> None:
    code = """
import stat
bind()
result = [attempt(os.mknod, f"{data['room']}/open/{k}", k | 0o600, os.makedev(1, 3)) for k in (stat.S_IFCHR, stat.S_IFBLK)]
"""
    assert bound(code, 0, [room / "open"], room=str(room)) == [errno.EACCES] * 2


@lacking("kernel", ABI < 4, "its Landlock knows nothing of the network")
def test_tcp_is_closed() -> None:
    code = """
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
address = server.getsockname()
before = attempt(socket.create_connection, address)
bind()
result = [before, attempt(socket.socket().connect, address), attempt(socket.socket().bind, ("127.0.0.1", 0))]
"""
    assert bound(code) == [0, errno.EACCES, errno.EACCES]


@lacking("kernel", ABI < 6, "its Landlock knows no scopes")
@pytest.mark.parametrize("uid", USERS)
def test_signals_and_abstract_sockets_stay_inside(uid: int) -> None:
    code = """
address = "\\0verigym-test-%d" % os.getpid()
outside = os.fork()
if not outside:
    signal.pause()
server = socket.socket(socket.AF_UNIX); server.bind(address); server.listen()
own = socket.socket(socket.AF_UNIX)
before = [attempt(os.kill, outside, 0), attempt(socket.socket(socket.AF_UNIX).connect, address)]
lead, follow = os.pipe()
inside = os.fork()
if not inside:
    bind()
    child = subprocess.Popen(["/bin/sleep", "60"])
    after = [attempt(os.kill, outside, 0), attempt(os.kill, os.getppid(), 0), attempt(own.connect, address)]
    after += [attempt(child.kill), child.wait(), attempt(os.kill, os.getpid(), 0)]
    os.write(follow, json.dumps(after).encode())
    os._exit(0)
os.waitpid(inside, 0)
result = [before, json.loads(os.read(lead, 1000))]
os.kill(outside, signal.SIGKILL); os.waitpid(outside, 0)
"""
    before, after = bound(code, uid)
    assert before == [0, 0]
    assert after == [errno.EPERM, errno.EPERM, errno.EPERM, 0, -9, 0]


@needs("root")
def test_a_later_mount_is_covered_inside_a_writable_directory_not_upon_it(room: Path) -> None:
    code = """
from verigym.sandbox.inside.walls.syscalls import CLONE_NEWNS, MS_PRIVATE, MS_REC, mount, unshare
home = data["room"] + "/open"
unshare(CLONE_NEWNS)
mount("none", "/", None, MS_REC | MS_PRIVATE)
if data["upon"]: mount("tmpfs", home, "tmpfs")
else: os.mkdir(home + "/run"); mount("tmpfs", home + "/run", "tmpfs")
bind()
result = attempt(write, home + ("/x" if data["upon"] else "/run/x"))
"""
    assert bound(code, 0, [room / "open"], room=str(room), upon=False) == 0
    assert bound(code, 0, [room / "open"], room=str(room), upon=True) == errno.EACCES


def test_it_narrows_but_never_widens(room: Path) -> None:
    code = """
wider = landlock.create(["/"], ["/"])
bind()
landlock.restrict(wider)
result = [attempt(read, data["room"] + "/closed/file"), attempt(read, data["room"] + "/open/file")]
"""
    assert bound(code, 0, [room / "open"], room=str(room)) == [errno.EACCES, 0]


def test_without_no_new_privs_it_is_an_error() -> None:
    code = (
        "import errno, os\nfrom verigym.sandbox.inside.walls import landlock, syscalls\n"
        "if os.getuid() == 0: syscalls.drop_capabilities()\n"
        "try: landlock.restrict(landlock.create(['/']))\nexcept OSError as error: print(errno.errorcode[error.errno])"
    )
    assert subprocess.run([sys.executable, "-c", ALONE + code], capture_output=True, text=True).stdout == "EPERM\n"


@pytest.mark.parametrize("version", range(1, ABI + 1))
def test_older_versions_get_the_rights_they_know(version: int, room: Path) -> None:
    code = f"""
os.close(ruleset)
landlock.abi = lambda: {version}
ruleset = landlock.create(["/usr"], [data["room"] + "/open"])
bind()
result = [attempt(write, data["room"] + "/open/new"), attempt(write, data["room"] + "/closed/new")]
"""
    assert bound(code, 0, [room / "open"], room=str(room)) == [0, errno.EACCES]


def test_without_landlock_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from verigym.sandbox.inside.walls import syscalls

    monkeypatch.delitem(syscalls.NUMBERS, "landlock_create_ruleset")
    assert landlock.abi() == 0
    with pytest.raises(OSError, match="Landlock is not available"):
        landlock.create(["/"])


def test_a_failed_rule_leaves_no_descriptor() -> None:
    held = Held()
    with pytest.raises(ValueError, match="null"):
        landlock.create(["/usr", "/bad\0path"])
    assert held.new_descriptors() == []
