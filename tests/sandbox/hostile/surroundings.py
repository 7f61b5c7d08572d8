"""What hostile programs would like to reach, and how the host is compared before and after they ran."""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import socket
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.sandbox.traces import mounts, waiting

PORT = 45871
SECRET = "s3cr3t-canary"
# How the cases name what they make.
_MARKS = ("verigym_", "vg_", "PWNED", "acct", "evil", "fill", "node", "x", "y", "-rf", "$(")


@contextlib.contextmanager
def bait() -> Iterator[Path]:
    """Lay out a secret in the environment, listeners, and a folder of canary files that anyone may write."""
    with contextlib.ExitStack() as stack:
        for address in (("127.0.0.1", PORT), ("::1", PORT), "\0verigym-canary"):
            family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            listener = stack.enter_context(socket.socket(family))
            with contextlib.suppress(OSError):  # another process of this set has it
                listener.bind(address)
                listener.listen()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="canary-")))
        folder.chmod(0o777)
        (folder / "secret").write_text(SECRET)
        (folder / "secret").chmod(0o666)
        before = os.environ.get("CANARY_SECRET")
        os.environ["CANARY_SECRET"] = SECRET
        try:
            yield folder
        finally:
            if before is None:
                del os.environ["CANARY_SECRET"]
            else:
                os.environ["CANARY_SECRET"] = before


@dataclass(frozen=True)
class Host:
    """The state of the host that no program may change. Its clock is not here: others set it, and X-C15 says if it could."""

    mounts: frozenset[str]
    hostname: str
    environment: dict[str, str]
    canary: tuple[tuple[str, bytes], ...]
    names: frozenset[str]
    sockets: frozenset[str]

    @classmethod
    def look(cls, canary: Path) -> Host:
        """Take a snapshot."""
        return cls(
            mounts=frozenset(mounts()),
            hostname=socket.gethostname(),
            environment=dict(os.environ),
            canary=tuple(sorted((path.name, path.read_bytes()) for path in canary.iterdir())),
            names=frozenset(_names()),
            sockets=frozenset(_listening()),
        )

    def changes(self, after: Host) -> list[str]:
        """Return what is different."""
        found = []
        for what in ("mounts", "hostname", "environment", "canary"):
            if getattr(self, what) != getattr(after, what):
                found.append(f"the host's {what} changed")
        for what, extra in (("files", after.names - self.names), ("sockets", after.sockets - self.sockets)):
            if extra:
                found.append(f"new {what}: {sorted(extra)[:5]}")
        return found


def _names() -> Iterator[str]:
    """Yield the files that matter: others use these folders too, so only what the cases may have named or a run's user owns."""
    for folder in ("/", "/etc", "/run", os.getcwd(), "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            with contextlib.suppress(OSError):  # gone meanwhile
                owner = os.lstat(f"{folder}/{name}").st_uid
                if owner >= 1 << 30 or (owner == os.geteuid() and name.startswith(_MARKS)):
                    yield f"{folder}/{name}"


def _listening() -> Iterator[str]:
    for name in ("tcp", "tcp6", "udp", "udp6"):
        with contextlib.suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as file:
            for line in list(file)[1:]:
                local, state, uid = line.split()[1], line.split()[3], int(line.split()[7])
                if (state == "0A" or name.startswith("udp")) and _may_be_a_runs(uid):
                    yield f"{name}:{local}"
    with contextlib.suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        for line in list(file)[1:]:
            parts = line.split()
            if int(parts[3], 16) & 0x10000 and len(parts) > 7 and parts[7].rpartition("/")[2].lstrip("@").startswith(_MARKS):
                yield f"unix:{parts[7]}"


def _may_be_a_runs(uid: int) -> bool:
    """Whether a run may have this uid: as root it has one of its own, without an account; others use this machine, too."""
    if os.geteuid() != 0:
        return uid == os.geteuid()
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return True
    return False


def survivors(roots: Collection[int]) -> dict[tuple[int, str], str]:
    """Return processes below the roots that are a program's: behind a filter, and not the first process of their namespace.

    The key holds the start time too, since numbers of processes come again.
    """
    parents: dict[int, int] = {}
    started: dict[int, str] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, IndexError):
                stat = Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")[2].split()
                if stat[0] != "Z":
                    parents[int(entry)], started[int(entry)] = int(stat[1]), stat[19]
    found = {}
    ready = waiting(parents)
    for pid, start in started.items():
        if pid not in ready and _below(pid, parents, roots):
            with contextlib.suppress(OSError, KeyError):
                lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
                fields = dict(line.split(":", 1) for line in lines if ":" in line)
                if fields["Seccomp"].strip() == "2" and fields.get("NSpid", "0").split()[-1] != "1":
                    found[pid, start] = fields["Name"].strip()
    return found


def _below(pid: int, parents: dict[int, int], roots: Collection[int]) -> bool:
    while pid := parents.get(pid, 0):
        if pid in roots:
            return True
    return False


def reset_peak() -> int:
    """Start measuring this process's largest resident size anew. Returns the size now, in KiB."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """Return the largest resident size since `reset_peak`, in KiB."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0
