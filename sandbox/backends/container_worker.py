"""One hardened container with a cell in it."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import random
import select
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from verigym.sandbox.backends import boot
from verigym.sandbox.backends.container_daemon import OWNER, Daemon, remove_container
from verigym.sandbox.backends.container_run import ContainerRun
from verigym.sandbox.backends.container_stream import AttachStream, StreamGone
from verigym.sandbox.inside.cell.relay import READY
from verigym.sandbox.job import Job
from verigym.sandbox.spec import SandboxFailure

RUN_DIR = "/tmp"
PACKAGES_DIR = "/packages"
"""Folder in the container with links to the packages that programs may import.

Landlock keeps runs from writing there. On kernels without Landlock, changes are detected.
"""

_BOOT_S = 60.0
_SETTLE_S = 1.0  # until a daemon knows how a container ended
_CELL_MB = 64
_CELL_PROCESSES = 8
_SHM_MB = 16
_KILLED = 137
_MOUNT_OPTIONS = "rw,exec,nosuid,nodev,mode=1777"

# A process limit counts the user's processes in all containers, so each container gets its own uid.
_uids = itertools.count(random.SystemRandom().randrange(20_000))


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """Resource limits for all processes of a container together, fixed when the container is created."""

    memory_mb: int
    files_mb: int
    inodes: int
    processes: int

    @classmethod
    def of(cls, job: Job) -> ContainerLimits:
        """Return the limits for `job`, rounded up so that jobs with similar limits can use the same container."""
        limits = job.limits
        return cls(
            memory_mb=math.ceil(limits.memory_mb),
            files_mb=_round(limits.files_mb, 16, spare=8),
            inodes=_round(limits.inodes, 4096, spare=512),
            processes=_round(limits.processes, 32, spare=0),
        )


def _round(value: float, step: int, spare: int) -> int:
    # A program's own files are added to its limits: slightly more than a round number must not need another container.
    return step * max(0, math.ceil((value - spare) / step)) + spare


class ContainerWorker:
    """One container, and the stream to the process that serves runs in it. It serves one run at a time.

    Raises:
        SandboxFailure: the daemon is not reachable, or the container cannot be started.
    """

    level = 3

    def __init__(self, daemon: Daemon, shape: ContainerLimits) -> None:
        self.daemon = daemon
        self.shape = shape
        self.runs = 0
        self.core = -1  # a container's processes cannot be pinned from here
        self._removal: threading.Thread | None = None
        self._gone = False
        self._lock = threading.Lock()
        with daemon.client() as client:
            self.id = self._create(client.api)
            stream: AttachStream | None = None
            try:
                # Attach before the start, and let the cell write only after us: earlier output could be lost.
                attached = client.api.attach_socket(self.id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
                self.stream = stream = AttachStream(attached)
                client.api.start(self.id)
                self._check_runtime(client.api)
                self.ready = self._handshake()
            except BaseException:
                if stream is not None:
                    stream.close()
                with contextlib.suppress(Exception):
                    remove_container(client.api, self.id)
                raise

    def _create(self, api: Any) -> str:
        for inodes in (True, False):
            try:
                return str(api.create_container_from_config(self._config(api, inodes))["Id"])
            except Exception as error:
                if not (inodes and "nr_inodes" in str(error)):  # Podman does not know this option
                    raise
        raise AssertionError("unreachable")

    def _check_runtime(self, api: Any) -> None:
        """Refuse a daemon that ignores the `runtime` option: who asks for gVisor must not get less."""
        wanted = self.daemon.runtime
        given = api.inspect_container(self.id) if wanted else {}
        names = {given.get("OCIRuntime"), given.get("HostConfig", {}).get("Runtime")}
        if wanted and wanted not in names and os.path.basename(wanted) not in names:
            raise SandboxFailure(
                f"the daemon ignores runtime={wanted!r}. Podman's is chosen when it starts (podman --runtime {wanted} system "
                "service): leave the option out then",
                retryable=False,
            )

    def _config(self, api: Any, inodes: bool) -> Any:
        from docker.types import LogConfig, Ulimit

        shape, uid = self.shape, 20_000 + next(_uids) % 40_000
        self._limits_inodes = inodes
        counted = f",nr_inodes={shape.inodes + 64}" if inodes else ""
        host = api.create_host_config(
            network_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            ipc_mode="private",
            init=False,
            runtime=self.daemon.runtime,
            mem_limit=(memory := (shape.memory_mb + shape.files_mb + _SHM_MB + _CELL_MB) << 20),
            memswap_limit=memory,
            nano_cpus=None if self.daemon.cpus is None else int(self.daemon.cpus * 1e9),
            pids_limit=shape.processes + _CELL_PROCESSES,
            tmpfs={
                RUN_DIR: f"{_MOUNT_OPTIONS},size={shape.files_mb}m{counted}",
                "/dev/shm": f"{_MOUNT_OPTIONS},size={_SHM_MB}m",
                PACKAGES_DIR: f"{_MOUNT_OPTIONS},size=1m",
            },
            # Both must be named: Podman otherwise sets its own, which root without CAP_SYS_RESOURCE may not raise.
            ulimits=[
                Ulimit(name="nofile", soft=1024, hard=1024),
                Ulimit(name="nproc", soft=4096, hard=4096),
                Ulimit(name="core", soft=0, hard=0),
            ],
            log_config=LogConfig(type="none"),
        )
        config = api.create_container_config(
            self.daemon.image,
            ["0", "0", "1"],
            entrypoint=[self.daemon.python, *boot.FLAGS, "-c", boot.PROGRAM],
            user=f"{uid}:{uid}",
            hostname="sandbox",
            working_dir="/",
            environment={"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1", "HOME": RUN_DIR},
            labels={OWNER: self.daemon.owner},
            stdin_open=True,
            detach=False,  # with stdin_open: when we are gone, its standard input ends, and so does the cell
            stop_signal="SIGKILL",
            host_config=host,
        )
        return config

    def _handshake(self) -> dict[str, Any]:
        deadline = time.monotonic() + _BOOT_S
        try:
            self.stream.send_raw(boot.message("cell.container_cell:main", self._cell_config(), same_python=False))
            while True:
                poll = select.poll()
                poll.register(self.stream.fileno(), self.stream.events)
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    raise SandboxFailure(f"a container did not start within {_BOOT_S:.0f} s")
                self.stream.flush()
                for kind, body in self.stream.receive():
                    if kind == READY:
                        return self._ready(json.loads(bytes(body)))
        except StreamGone as error:
            complaints = self.stream.complaints.decode("utf-8", "replace").strip()[-1000:]
            _, why = self.exit_reason(str(error))
            if not complaints:
                raise SandboxFailure(f"a container ended before its first run: {why}") from None
            raise SandboxFailure(
                f"the image {self.daemon.image!r} cannot run the sandbox, which needs Python 3.11 or newer as "
                f"{self.daemon.python}: {complaints}",
                retryable=False,
            ) from None

    def _cell_config(self) -> dict[str, Any]:
        chosen = {"names": self.daemon.packages, "all_there": self.daemon.all_packages, "place": PACKAGES_DIR}
        return {"run_dir": RUN_DIR, "packages": chosen}

    def _ready(self, ready: dict[str, Any]) -> dict[str, Any]:
        if not ready["ready"]:
            raise SandboxFailure(f"a container cannot start: {ready['error']}", retryable=False)
        if not self._limits_inodes:
            ready["lacks"]["inodes"] = "the daemon does not limit the number of files; the memory limit bounds it"
        return {**ready, "image": self.daemon.image, "runtime": self.daemon.runtime or "the daemon's default"}

    @property
    def closed(self) -> bool:
        """Whether the container was discarded."""
        return self._gone

    @property
    def alive(self) -> bool:
        """Whether the container can still serve runs.

        A container writes nothing between runs. So if its stream is readable between runs, the stream has ended.
        """
        if self._gone:
            return False
        poll = select.poll()
        poll.register(self.stream.fileno(), select.POLLIN)
        return not poll.poll(0)

    def start(self, job: Job, release: Callable[[ContainerWorker], None]) -> ContainerRun:
        """Start the run of `job` and return it.

        Args:
            job: the program to run.
            release: called once, when the run has ended and this worker is free or closed.
        """
        self.runs += 1
        return ContainerRun(self, job, release)

    def explain(self, job: Job, note: str) -> str:
        """Return the error message for a run of `job` that could not be set up.

        Args:
            job: the description of the run.
            note: the reason that the container reported.
        """
        tool = f" The image {self.daemon.image!r} must have it." if job.mode == "exec" else ""
        return f"the sandbox could not set up a run: {note}.{tool}"

    def exit_reason(self, detail: str) -> tuple[bool, str]:
        """Return whether the container ran out of memory, and a text that says why the container is gone.

        Args:
            detail: the stream error that showed that the container is gone; it becomes part of the text.
        """
        state: Mapping[str, Any] = {}
        try:
            with self.daemon.client() as client:
                deadline = time.monotonic() + _SETTLE_S
                while time.monotonic() < deadline:
                    state = client.api.inspect_container(self.id)["State"]
                    if not state.get("Running"):
                        break
                    time.sleep(0.05)
        except SandboxFailure as error:
            return False, f"a container's stream broke ({detail}), and {error.message}"
        if state.get("Running"):
            return False, f"the daemon closed a container's stream: {detail}"
        code = state.get("ExitCode")
        killed = " (killed, by somebody or for memory)" if code == _KILLED else ""
        return bool(
            state.get("OOMKilled")
        ), f"a container ended during a run with exit code {code}{killed} {state.get('Error', '')}"

    def discard(self) -> None:
        """Remove the container in the background, so that the caller need not wait."""
        with self._lock:
            if self._gone:
                return
            self._gone = True
            self.stream.close()
            try:
                self._removal = threading.Thread(target=self._remove, name="verigym-container-removal")
                self._removal.start()
            except RuntimeError:  # the interpreter is ending
                self._removal = None
                self._remove()

    def _remove(self) -> None:
        # If the daemon is down, the container ends by itself, and a later sweep removes it.
        with contextlib.suppress(Exception), self.daemon.client() as client:
            if remove_container(client.api, self.id):
                return
        self.daemon.lost.append(self.id)

    def kill(self) -> None:
        """Kill the container; any thread may call this.

        The thread that waits for the container's run then closes the worker.
        """
        with contextlib.suppress(Exception), self.daemon.client() as client:
            client.api.kill(self.id)

    def close(self) -> None:
        """Remove the container. Further calls do nothing."""
        self.discard()

    def join(self) -> None:
        """Wait until a removal that `discard` started is done."""
        if self._removal is not None:
            self._removal.join()

    def forget(self) -> None:
        """Close the inherited stream in a forked child; the container belongs to the parent."""
        self._gone = True
        os.close(self.stream.sock.detach())
