"""The doctor on this machine, and on this machine with layers taken away for real by filters, limits and users."""

from __future__ import annotations

import json
import os
import shutil
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held import Held
from needs import lack, lacking, needs

from verigym.sandbox.backends import cgroup
from verigym.sandbox.checks import doctor
from verigym.sandbox.checks.doctor import NAMESPACES, Layer, best_level, probe_layers
from verigym.sandbox.inside.walls import landlock, probes, seccomp
from verigym.sandbox.languages import LANGUAGES

# The sandbox without the rest of the package, which takes ten times as long to import.
ALONE = f"""
import sys, types
sys.modules.update({{name: types.ModuleType(name) for name in ("verigym", "verigym.sandbox")}})
sys.modules["verigym.sandbox"].__path__ = [{str(Path(__file__).parents[2] / "sandbox")!r}]
"""

root = needs("root")
filters = lacking("kernel", not seccomp.available(), "it takes no system call filters")


@pytest.fixture(scope="module")
def layers() -> dict[str, Layer]:
    return {layer.name: layer for layer in probe_layers()}


def test_every_layer_says_what_it_saw_or_what_to_do(layers: dict[str, Layer]) -> None:
    expected = {"kernel", "user namespace", *NAMESPACES, "own /proc", "tmpfs", "landlock", "landlock signals", "seccomp"}
    expected |= {"no capabilities", "own uid", "process limit", "memory cgroup", "pids cgroup", "bubblewrap"}
    expected |= {"container daemon", "runsc", *LANGUAGES}
    assert set(layers) == expected
    for layer in layers.values():
        assert layer.detail, layer
        assert bool(layer.remedy) != layer.available, layer


def test_it_agrees_with_the_parts(layers: dict[str, Layer]) -> None:
    assert layers["kernel"].available
    assert layers["python"].available and sys.version.split()[0] in layers["python"].detail
    assert layers["landlock"].available == (landlock.abi() > 0)
    assert layers["seccomp"].available == seccomp.available()
    assert layers["memory cgroup"].available == cgroup.probe()[0]
    assert layers["own uid"].available == (os.geteuid() == 0)


def test_it_leaves_nothing_behind() -> None:
    def state() -> list[Any]:
        places = {place.path for name in cgroup.CONTROLLERS for place in cgroup.directories_for(name)[0]}
        groups = [path.name for place in places for path in Path(place).glob(f"verigym-*-{os.getpid()}-*")]
        return [groups, Path("/proc/self/mountinfo").read_text(), os.uname().nodename, os.geteuid()]

    before, held = state(), Held()
    probe_layers()
    assert state() == before
    assert (held.new_children(), held.new_descriptors()) == (set(), [])


PROBED = """
import encodings.ascii, json, os, sys
from verigym.sandbox.backends import cgroup
from verigym.sandbox.checks import doctor
from verigym.sandbox.inside.walls import landlock, probes, seccomp, syscalls
def show(layers): print(json.dumps([{l.name: [l.available, l.detail, l.remedy] for l in layers}, *doctor.best_level(layers)]))
"""


def probed(code: str) -> tuple[dict[str, list[Any]], int, str]:
    """Take something away in a fresh process, examine the kernel's layers there, and return them with the level and reason."""
    done = subprocess.run(
        [sys.executable, "-c", f"{ALONE}{PROBED}{code}\nshow(doctor._kernel_layers())"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    layers, level, reason = json.loads(done.stdout)
    return layers, level, reason


UNPRIVILEGED = "syscalls.drop_capabilities(); syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)\n"


@filters
@lacking("kernel", landlock.abi() < 6, "no Landlock with signal scopes to fall back on")
def test_a_container_that_forbids_namespaces_is_level_2() -> None:
    layers, level, reason = probed(f"{UNPRIVILEGED}seccomp.install(seccomp.build())")
    for name in ("user namespace", *NAMESPACES, "tmpfs", "own /proc"):
        available, detail, remedy = layers[name]
        assert not available and detail.startswith("Operation not permitted"), name
        assert "--security-opt" in remedy
    assert layers["landlock signals"][0] and layers["seccomp"][0] and layers["no capabilities"][0]
    assert level == 2
    assert "pid namespace (Operation not permitted: unshare)" in reason


@filters
def test_without_landlock_too_it_is_level_1() -> None:
    code = "seccomp._REFUSED += ['landlock_create_ruleset']\n"
    layers, level, reason = probed(f"{code}{UNPRIVILEGED}seccomp.install(seccomp.build())")
    assert layers["landlock"][:2] == [False, "the kernel has none, or it is turned off"]
    assert "lsm=landlock" in layers["landlock"][2]
    assert level == 1
    assert "landlock (the kernel has none, or it is turned off)" in reason


@filters
def test_without_seccomp_it_is_level_1() -> None:
    layers, level, reason = probed(f"seccomp._REFUSED += ['seccomp']\n{UNPRIVILEGED}seccomp.install(seccomp.build())")
    assert not layers["seccomp"][0]
    assert (level, "seccomp (Operation not permitted: seccomp)" in reason) == (1, True)


@root
def test_a_limit_on_user_namespaces_is_named() -> None:
    code = """
syscalls.unshare(syscalls.CLONE_NEWUSER)
for name, text in (("setgroups", "deny"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1")):
    with open(f"/proc/self/{name}", "w") as file: file.write(text)
try:
    with open("/proc/sys/user/max_user_namespaces", "w") as file: file.write("0")  # of this namespace, not of the machine
except OSError: pass
syscalls.drop_capabilities()
"""
    before = Path("/proc/sys/user/max_user_namespaces").read_text()
    layers, _, _ = probed(code)
    assert Path("/proc/sys/user/max_user_namespaces").read_text() == before
    if layers["user namespace"][0]:
        lack("kernel", "this kernel does not let a namespace limit itself")
    assert layers["user namespace"][2] == "sysctl -w user.max_user_namespaces=15000"


@root
def test_an_ordinary_user_gets_namespaces_through_a_user_namespace(layers: dict[str, Layer]) -> None:
    if not layers["user namespace"].available:
        lack("kernel", f"no user namespaces: {layers['user namespace'].detail}")
    # Not by `probe_layers`: that user may not be able to start this interpreter.
    code = "os.setgroups([]); os.setgid(4242); os.setuid(4242)\nsyscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)\nprobes.main({}, 1)"
    done = subprocess.run([sys.executable, "-c", ALONE + PROBED + code], capture_output=True, text=True, timeout=600, cwd="/")
    results = json.loads(done.stdout)
    for name in NAMESPACES:
        assert results[name] == [True, "in a user namespace"]
    assert results["own uid"] == [False, "only root can give runs a uid of their own"]
    assert results["process limit"] == [True, "all processes of this user count"]
    assert results["no capabilities"][0]


def test_a_probe_that_hangs_or_dies_is_a_missing_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    with monkeypatch.context() as short:
        short.setattr(probes, "_PATIENCE_S", 0.2)
        assert probes._tried(lambda: str(time.sleep(60))) == (False, "no answer within 0 s")
    assert probes._tried(lambda: str(os.kill(os.getpid(), 9))) == (False, "the probe died (exit code -9)")
    assert probes._tried(lambda: str(1 // 0)) == (False, "ZeroDivisionError: integer division or modulo by zero")


def test_probes_that_cannot_start_are_missing_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "interpreter", lambda: "/no/such/python")
    assert doctor._probe_kernel() == ({}, "the probes cannot be started: No such file or directory")
    monkeypatch.setattr(doctor, "interpreter", lambda: "/bin/false")
    layers = doctor._kernel_layers()
    assert not any(layer.available for layer in layers)
    assert all(layer.detail.startswith("the probes failed") for layer in layers)


class Daemon(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    answer = b""


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        if self.rfile.readline() == b"GET /_ping HTTP/1.1\r\n":
            self.wfile.write(self.server.answer)  # type: ignore[attr-defined]


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # the address of a socket has 107 bytes at most
    path = folder / "podman/podman.sock"
    path.parent.mkdir()
    monkeypatch.setattr(doctor, "_SOCKETS", ("{runtime}/podman/podman.sock",))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    with Daemon(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    shutil.rmtree(folder)


def test_a_container_daemon_is_found_and_asked(daemon: Daemon) -> None:
    daemon.answer = b"HTTP/1.1 200 OK\r\nServer: Libpod/4.3.1 (linux)\r\nContent-Length: 2\r\n\r\nOK"
    layer = doctor._daemon()
    assert layer.detail.startswith("Libpod/4.3.1 (linux) at unix://")
    assert layer.available == ("no Python package" not in layer.detail)
    daemon.answer = b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n"
    layer = doctor._daemon()
    assert not layer.available and "it answers 500 Broken" in layer.detail and layer.remedy
    daemon.answer = b"not http at all\r\n\r\n"
    assert not doctor._daemon().available


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("unix:///no/such.sock", "No such file or directory"),
        ("tcp://127.0.0.1:9", "Connection refused"),
        ("ssh://host", "cannot try ssh addresses"),
    ],
)
def test_docker_host_is_believed(url: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", url)
    layer = doctor._daemon()
    assert not layer.available
    assert words in layer.detail


def test_tools_must_work_not_only_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor._bubblewrap().detail == "not installed"
    program = tmp_path / "bwrap"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "bubblewrap 9" && exit\necho "setting up uid map: no" >&2; exit 1\n'
    )
    program.chmod(0o755)
    layer = doctor._bubblewrap()
    assert not layer.available and layer.remedy
    assert layer.detail == f"bubblewrap 9 ({program}) fails: exit code 1: setting up uid map: no"
    program.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    monkeypatch.setattr(doctor, "_TOOL_S", 0.2)
    assert "gave no answer" in doctor._bubblewrap().detail


def rungs(*lacking: str) -> list[Layer]:
    names = (*NAMESPACES, "tmpfs", "no capabilities", "seccomp", "landlock", "landlock signals", "own uid", "own /proc")
    return [Layer(name, name not in lacking, "gone" if name in lacking else "", "") for name in (*names, "memory cgroup")]


@pytest.mark.parametrize(
    ("lacking", "level", "words"),
    [
        ((), 3, "own namespaces, seccomp and no capabilities"),
        (("landlock", "landlock signals", "own uid"), 3, "without landlock (gone)"),
        (("memory cgroup",), 3, "without memory cgroup (gone)"),
        (("pid namespace",), 2, "for level 3 lacks pid namespace (gone)"),
        (("tmpfs", "own uid"), 2, "lacks tmpfs"),
        (("network namespace", "landlock signals"), 2, "lacks network namespace"),
        (("pid namespace", "landlock signals", "own uid"), 1, "lacks own uid (gone), landlock signals (gone)"),
        (("pid namespace", "landlock"), 1, "lacks landlock"),
        (("seccomp",), 1, "lacks seccomp"),
        (("no capabilities",), 1, "lacks no capabilities"),
    ],
)
def test_the_ladder(lacking: tuple[str, ...], level: int, words: str) -> None:
    reached, reason = best_level(rungs(*lacking))
    assert reached == level
    assert words in reason
