"""The docker back end: warm cells in hardened containers of Docker or Podman, one container a worker."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref

from verigym.sandbox import languages
from verigym.sandbox.box import Sandbox
from verigym.sandbox.container_daemon import Daemon, owner, sweep
from verigym.sandbox.container_worker import ContainerWorker, Shape
from verigym.sandbox.drive import Run
from verigym.sandbox.job import Job
from verigym.sandbox.pool import Pool
from verigym.sandbox.spec import Limits, Program, SandboxFailure
from verigym.sandbox.view import Packages, named

DEFAULT_IMAGE = "python:3.12-slim"
_SOCKETS = ("/var/run/docker.sock", "/run/podman/podman.sock", "{runtime}/docker.sock", "{runtime}/podman/podman.sock")


class ContainerSandbox(Sandbox):
    """Runs programs in warm cells in containers: no network, no capabilities, read-only but for memory file systems.

    Args:
        image: any image with Python 3.11 or newer as python3; compilers and node in it give more languages. Never pulled.
        base_url: the daemon's address, such as unix:///run/podman/podman.sock; by default DOCKER_HOST or a usual socket.
        runtime: the OCI runtime, such as "runsc" (gVisor); the daemon's default otherwise.
        workers: runs at one time; by default one a usable core.
        cpus: CPUs that a container may use; None leaves them unlimited.
        python: the image's interpreter.
        retire_after: runs after which a container is replaced.
        packages: which of the image's packages programs may import, as `LocalSandbox` takes it.
        allow_unsafe: as the other back ends take it; there is no unsafe level here.
    """

    name = "docker"

    def __init__(
        self,
        *,
        image: str = DEFAULT_IMAGE,
        base_url: str | None = None,
        runtime: str | None = None,
        workers: int | None = None,
        cpus: float | None = 1.0,
        python: str = "python3",
        retire_after: int = 1000,
        packages: Packages = True,
        allow_unsafe: bool = False,
    ) -> None:
        if cpus is not None and not cpus > 0:
            raise ValueError(f"cpus={cpus}: expected a number above 0, or None")
        if retire_after < 1:
            raise ValueError(f"retire_after={retire_after}: expected at least 1")
        names, all_packages = named(packages)
        self._options = {
            "image": image,
            "python": python,
            "runtime": runtime,
            "cpus": cpus,
            "packages": names,
            "all_packages": all_packages,
        }
        self._base_url = base_url or _usual_socket()
        self._retire_after = retire_after
        super().__init__(workers=workers)

    def _open(self) -> None:
        self._pid = os.getpid()
        self._held = threading.local()
        self._daemon = Daemon(base_url=self._base_url, owner=owner(os.getpid()), **self._options)  # type: ignore[arg-type]
        self._pool: Pool[ContainerWorker] = Pool(self._make, self._slots, self._retire_after)
        self._made: weakref.WeakSet[ContainerWorker] = weakref.WeakSet()
        self._wanted = threading.local()
        self._swept = False
        self._sweeping = threading.Lock()

    def _make(self) -> ContainerWorker:
        with self._sweeping:
            if not self._swept or self._daemon.lost:
                sweep(self._daemon)
                self._swept = True
        worker = ContainerWorker(self._daemon, getattr(self._wanted, "shape", None) or _usual_shape())
        self._made.add(worker)
        if self._pool.closed:  # meanwhile
            worker.close()
            raise SandboxFailure("the sandbox is closed", retryable=False)
        return worker

    def find_tool(self, language: languages.Language) -> str:
        """Return the name of a language's tool: where it is, is looked up in the container."""
        return language.tool

    def start(self, job: Job) -> Run:
        """Start a run on an idle container of the right shape, or on a new one.

        Raises:
            SandboxFailure: no container could be started.
        """
        worker = self._take(Shape.of(job))
        return worker.start(job, self._pool.give)

    def _take(self, shape: Shape) -> ContainerWorker:
        others: list[ContainerWorker] = []
        self._wanted.shape = shape
        try:
            while (worker := self._pool.take()).shape != shape:
                others.append(worker)
                if len(others) >= 2 * self._slots:  # as many as may work at one time, and none of them fits
                    worn = others.pop(0)
                    worn.close()
                    self._pool.give(worn)
        finally:
            self._wanted.shape = None
            for other in others:
                self._pool.give(other)
        return worker

    def close(self) -> None:
        """Remove all containers. The sandbox cannot be used afterwards."""
        super().close()
        if os.getpid() == self._pid:
            for worker in list(self._made):
                worker.join()
            if self._swept:  # else it has made none
                with contextlib.suppress(SandboxFailure):
                    sweep(self._daemon, ours=True)


def _usual_shape() -> Shape:
    return Shape.of(languages.job(Program(source=""), b"", Limits()))


def _usual_socket() -> str | None:
    if os.environ.get("DOCKER_HOST"):
        return None
    runtime = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    paths = [path.format(runtime=runtime) for path in _SOCKETS]
    return next((f"unix://{path}" for path in paths if os.path.exists(path)), None)
