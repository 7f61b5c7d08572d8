"""`sandbox doctor`: which layers of isolation this machine offers, and what to do about missing ones.

Every layer is tried in another process with a time limit, and undone. `inside.walls.probes` tries the kernel's layers.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass

from verigym.sandbox.backends import boot, cgroup
from verigym.sandbox.languages import LANGUAGES, Language, tool
from verigym.sandbox.spec import SandboxFailure
from verigym.sandbox.view import interpreter

NAMESPACES = ("pid namespace", "mount namespace", "network namespace", "ipc namespace", "uts namespace")

_KERNEL_S = 60.0
_TOOL_S = 10.0
_DAEMON_S = 3.0
_SYSCTLS = (
    ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile with `userns` for this Python",
    ),
)
_IN_CONTAINER = "in a container: start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
_REMEDIES = {
    "own /proc": f"{_IN_CONTAINER} --security-opt systempaths=unconfined (Docker) or unmask=ALL (Podman)",
    "no capabilities": "a Linux kernel on x86_64 or aarch64",
    "seccomp": "a Linux kernel on x86_64 or aarch64 with CONFIG_SECCOMP_FILTER, in a container that allows seccomp(2)",
    "landlock": "Linux 5.13 or newer with `landlock` among the security modules: add lsm=landlock,... to the boot parameters",
    "landlock signals": "Linux 6.12 or newer",
    "own uid": "run as root, with CAP_SETUID and CAP_SETGID",
    "process limit": "a pids control group does the same; as an ordinary user RLIMIT_NPROC works",
}
_DELEGATE = (
    "as root, a writable /sys/fs/cgroup; with systemd `systemd-run --user --scope -p Delegate=yes COMMAND`; "
    "in a container a writable cgroup mount (--privileged, or Podman with --security-opt unmask=/sys/fs/cgroup)"
)
_SOCKETS = ("/var/run/docker.sock", "/run/podman/podman.sock", "{runtime}/docker.sock", "{runtime}/podman/podman.sock")


@dataclass(frozen=True)
class Layer:
    """The result of probing one layer of isolation, or one tool that a back end or a language needs."""

    name: str
    available: bool
    detail: str
    """What was observed, or why it is not available."""
    remedy: str
    """How to get it; empty if it is available."""


def probe_layers() -> list[Layer]:
    """Probe every layer of isolation and every tool. Takes about a second; a missing layer or tool does not raise."""
    layers = [
        _kernel(),
        *_kernel_layers(),
        *_cgroups(),
        _bubblewrap(),
        _daemon(),
        _version(
            "runsc", "runsc", "gVisor, for the docker back end with runtime=runsc: see gvisor.dev/docs/user_guide/install"
        ),
    ]
    return layers + [_language(known) for known in LANGUAGES.values()]


def best_level(layers: Sequence[Layer]) -> tuple[int, str]:
    """Return the highest isolation level that the local back end reaches with `layers`, and why no higher level is reached.

    Level 3 needs new namespaces, seccomp, and processes without capabilities. Level 2 needs seccomp, Landlock, and processes
    without capabilities. Level 2 must also keep runs from signalling other processes, by a separate uid for runs or by
    Landlock's signal scope. Level 1 has resource limits only.
    """
    known = {layer.name: layer for layer in layers}

    def lacking(*names: str) -> list[str]:
        return [f"{name} ({known[name].detail})" for name in names if name in known and not known[name].available]

    above = lacking(*NAMESPACES, "tmpfs", "no capabilities", "seccomp")
    if not above:
        missing = lacking("landlock", "own /proc", "memory cgroup")
        rest = f", without {', '.join(missing)}" if missing else ""
        return 3, f"own namespaces, seccomp and no capabilities{rest}"
    below = lacking("seccomp", "landlock", "no capabilities")
    if len(both := lacking("own uid", "landlock signals")) == 2:
        below += both
    if not below:
        return 2, f"seccomp, Landlock and no capabilities; for level 3 lacks {', '.join(above)}"
    return 1, f"resource limits only, refused unless allowed explicitly; for level 2 lacks {', '.join(below)}"


def _layer(name: str, available: bool, detail: str, remedy: str) -> Layer:
    return Layer(name, available, detail, "" if available else remedy)


def _kernel() -> Layer:
    system = os.uname()
    fine = system.sysname == "Linux" and system.machine in ("x86_64", "aarch64")
    return _layer("kernel", fine, f"{system.sysname} {system.release} {system.machine}", "Linux on x86_64 or aarch64")


def _kernel_layers() -> list[Layer]:
    results, problem = _probe_kernel()
    return [
        _layer(name, *results.get(name, (False, problem)), _REMEDIES.get(name) or _userns_remedy())
        for name in ("user namespace", *NAMESPACES, "tmpfs", *_REMEDIES)
    ]


def _probe_kernel() -> tuple[dict[str, tuple[bool, str]], str]:
    """Run the probes in a fresh interpreter. Returns the results, and the reason for missing ones."""
    boot_fd, boot_end = os.pipe2(os.O_CLOEXEC)
    out_end, out_fd = os.pipe2(os.O_CLOEXEC)
    try:
        process = subprocess.Popen(
            [interpreter(), *boot.FLAGS, "-c", boot.PROGRAM, str(boot_fd), str(out_fd)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(boot_fd, out_fd),
            start_new_session=True,
        )
    except OSError as error:
        for fd in (boot_end, out_end):
            os.close(fd)
        return {}, f"the probes cannot be started: {error.strerror}"
    finally:
        os.close(boot_fd)
        os.close(out_fd)
    with process, open(out_end, "rb") as out:
        with contextlib.suppress(BrokenPipeError), open(boot_end, "wb") as message:
            message.write(boot.message("walls.probes:main", {}, same_python=True))
        try:
            _, errors = process.communicate(timeout=_KERNEL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return {}, f"the probes took longer than {_KERNEL_S:.0f} s"
        try:
            return {name: (bool(ok), str(detail)) for name, (ok, detail) in json.loads(out.read()).items()}, "not tried"
        except ValueError:
            return {}, f"the probes failed: {errors.decode(errors='replace').strip()[-300:]}"


def _userns_remedy() -> str:
    for name, bad, remedy in _SYSCTLS:
        with contextlib.suppress(OSError), open(f"/proc/sys/{name}", encoding="ascii") as file:
            if file.read().strip() == bad:
                return remedy
    return _IN_CONTAINER


def _cgroups() -> list[Layer]:
    group, reasons = cgroup.try_create("doctor")
    details: dict[str, str] = {}
    if group is not None:
        try:
            details = _use(group)
        except OSError as error:
            reasons = dict.fromkeys(cgroup.CONTROLLERS, error.strerror or str(error))
        finally:
            group.remove()
    return [
        _layer(f"{name} cgroup", name in details, details.get(name) or reasons[name], _DELEGATE) for name in cgroup.CONTROLLERS
    ]


def _use(group: cgroup.Cgroup) -> dict[str, str]:
    """Put a process into the group and limit it; return each controller's version."""
    group.set_limits(64 << 20, 16)
    process = subprocess.Popen(["/bin/sh", "-c", "read line"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    with process:
        try:
            group.add(process.pid)
        finally:
            process.kill()
    return {name: f"version {version}" for name, version in group.versions.items()}


def _run(command: Sequence[str]) -> tuple[bool, str]:
    """Run a tool. Returns whether it worked, and the first line of its output or the error."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_TOOL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"{command[0]} gave no answer within {_TOOL_S:.0f} s"
    except OSError as error:
        return False, f"{command[0]}: {error.strerror}"
    lines = (done.stdout or done.stderr).strip().splitlines()
    line = lines[0][:100] if lines else ""
    return done.returncode == 0, line if done.returncode == 0 else f"exit code {done.returncode}: {line}"


def _version(name: str, program: str, remedy: str) -> Layer:
    path = shutil.which(program)
    if path is None:
        return Layer(name, False, "not installed", remedy)
    works, line = _run([path, "--version"])
    return _layer(name, works, f"{line} ({path})", remedy)


def _bubblewrap() -> Layer:
    layer = _version("bubblewrap", "bwrap", "apt-get install bubblewrap")
    if not layer.available:
        return layer
    spaces = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
    works, line = _run([str(shutil.which("bwrap")), *spaces, "--ro-bind", "/", "/", "--proc", "/proc", "true"])
    return _layer("bubblewrap", works, layer.detail if works else f"{layer.detail} fails: {line}", _userns_remedy())


def _language(known: Language) -> Layer:
    if known.tool == "{python}":
        return _version(known.name, interpreter(), "")
    try:
        return _version(known.name, tool(known), known.needs)
    except SandboxFailure as error:
        return Layer(known.name, False, error.message, known.needs)


def _daemon() -> Layer:
    """Return whether a Docker or Podman daemon answers and the client package is installed."""
    name = "container daemon"
    address = os.environ.get("DOCKER_HOST", "")
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    usual = [f"unix://{path.format(runtime=runtime)}" for path in _SOCKETS]
    addresses = [address] if address else [url for url in usual if os.path.exists(url.removeprefix("unix://"))]
    remedy = "start Docker or `podman system service --time=0`; DOCKER_HOST says where it is if not at a usual place"
    if not addresses:
        return Layer(name, False, "DOCKER_HOST is not set, and there is no usual socket", remedy)
    problems = []
    for url in addresses:
        try:
            server = _ping(url)
        except (OSError, ValueError, http.client.HTTPException) as error:
            problems.append(f"{url}: {getattr(error, 'strerror', None) or error}")
            continue
        if importlib.util.find_spec("docker") is None:
            return Layer(name, False, f"{server} at {url}, but no Python package `docker`", "pip install 'verigym[docker]'")
        return Layer(name, True, f"{server} at {url}", "")
    return Layer(name, False, "; ".join(problems), remedy)


def _ping(url: str) -> str:
    """Ping the daemon and return the name in its `Server` header."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("unix", "tcp", "http"):
        raise ValueError(f"cannot try {parts.scheme or 'such'} addresses")
    connection = http.client.HTTPConnection(parts.hostname or "localhost", parts.port or 2375, timeout=_DAEMON_S)
    try:
        if parts.scheme == "unix":
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(_DAEMON_S)
            connection.sock.connect(parts.path)
        connection.request("GET", "/_ping")
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"it answers {answer.status} {answer.reason}")
        return answer.getheader("Server") or "a daemon"
    finally:
        connection.close()
