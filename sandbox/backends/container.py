"""The docker back end: runs programs in hardened containers of Docker or Podman, which are reused; one container per worker."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref

from verigym.sandbox import languages
from verigym.sandbox.backends.container_daemon import Daemon, owner, sweep
from verigym.sandbox.backends.container_worker import ContainerLimits, ContainerWorker
from verigym.sandbox.box import Sandbox
from verigym.sandbox.event_loop import Run
from verigym.sandbox.job import Job
from verigym.sandbox.options import ContainerOptions
from verigym.sandbox.pool import Pool
from verigym.sandbox.spec import Limits, Program, SandboxFailure
from verigym.sandbox.view import package_names

_SOCKETS = ("/var/run/docker.sock", "/run/podman/podman.sock", "{runtime}/docker.sock", "{runtime}/podman/podman.sock")


class ContainerSandbox(Sandbox):
    """Runs programs in containers that are started once and reused.

    A container has no network and no capabilities, and is read-only except for file systems in memory. The options are
    `ContainerOptions`.
    """

    name = "docker"
    options_type = ContainerOptions
    options: ContainerOptions

    def _open(self) -> None:
        options = self.options
        names, all_packages = package_names(options.packages)
        self._pid = os.getpid()
        self._held = threading.local()
        self._daemon = Daemon(
            base_url=options.base_url or _usual_socket(),
            owner=owner(os.getpid()),
            image=options.image,
            python=options.python,
            runtime=options.runtime,
            cpus=options.cpus,
            packages=names,
            all_packages=all_packages,
        )
        self._pool: Pool[ContainerWorker] = Pool(self._make, self._slots, options.retire_after)
        self._made: weakref.WeakSet[ContainerWorker] = weakref.WeakSet()
        self._next_limits = threading.local()
        self._swept = False
        self._sweeping = threading.Lock()

    def _make(self) -> ContainerWorker:
        with self._sweeping:
            if not self._swept or self._daemon.lost:
                sweep(self._daemon)
                self._swept = True
        worker = ContainerWorker(self._daemon, getattr(self._next_limits, "shape", None) or _usual_limits())
        self._made.add(worker)
        if self._pool.closed:  # meanwhile
            worker.close()
            raise SandboxFailure("the sandbox is closed", retryable=False)
        return worker

    def find_tool(self, language: languages.Language) -> str:
        """Return the name of the compiler or interpreter of `language`; the container looks the name up later."""
        return language.tool

    def start(self, job: Job) -> Run:
        """Start the run of `job` in an idle container with the right limits, or in a new one.

        Raises:
            SandboxFailure: no container could be started.
        """
        worker = self._take(ContainerLimits.of(job))
        return worker.start(job, self._pool.give)

    def _take(self, shape: ContainerLimits) -> ContainerWorker:
        others: list[ContainerWorker] = []
        self._next_limits.shape = shape
        try:
            while (worker := self._pool.take()).shape != shape:
                others.append(worker)
                if len(others) >= 2 * self._slots:  # as many as the pool keeps, and none of them fits
                    worn = others.pop(0)
                    worn.close()
                    self._pool.give(worn)
        finally:
            self._next_limits.shape = None
            for other in others:
                self._pool.give(other)
        return worker

    def close(self) -> None:
        """Remove all containers. The sandbox cannot be used afterwards."""
        super().close()
        if os.getpid() == self._pid:
            for worker in list(self._made):
                worker.join()
            if self._swept:  # otherwise it has made none
                with contextlib.suppress(SandboxFailure):
                    sweep(self._daemon, ours=True)


def _usual_limits() -> ContainerLimits:
    return ContainerLimits.of(languages.job(Program(source=""), b"", Limits()))


def _usual_socket() -> str | None:
    if os.environ.get("DOCKER_HOST"):
        return None
    runtime = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    paths = [path.format(runtime=runtime) for path in _SOCKETS]
    return next((f"unix://{path}" for path in paths if os.path.exists(path)), None)
