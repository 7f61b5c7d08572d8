"""A Podman service for tests: its own socket, storage and image, all below one directory, and nothing left afterwards.

The image is made from Debian packages by image.sh, without a registry. VERIGYM_PODMAN_CACHE names a directory to keep it in.
As a script, `python tests/sandbox/docker/podman.py COMMAND...` runs a command with DOCKER_HOST and VERIGYM_TEST_IMAGE set.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

IMAGE = "localhost/verigym-test:latest"
CACHE = "VERIGYM_PODMAN_CACHE"
HERE = Path(__file__).resolve().parent
_STARTS_WITHIN_S = 30.0
_HELPERS_END_WITHIN_S = 15.0
_ROOM_BYTES = 4 << 30
_LOCKS = Path("/dev/shm/libpod_lock")
_CGROUPS = "/sys/fs/cgroup/*/libpod_parent"


class Unavailable(Exception):
    """Podman cannot run here; the message says why."""


class MountNamespace:
    """A mount namespace of its own, so that what containers mount is not seen by tests that count this machine's mounts.

    Its mounts end with the last process in it.
    """

    def __init__(self) -> None:
        held = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep infinity"]
        self._holder = subprocess.Popen(held, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self._holder.stdout is not None
        with self._holder.stdout as output:
            said = output.readline().strip()
        if said:
            self.close()
            raise Unavailable(f"no mount namespace of its own: {said.decode(errors='replace')}")

    def command(self, *command: str | Path, folder: Path) -> list[str]:
        """A command that runs another one in the namespace, in the folder."""
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", f"--wdns={folder}", "--", *map(str, command)]

    def close(self) -> None:
        """End the process that holds the namespace."""
        self._holder.kill()
        self._holder.wait()


def with_own_storage(directory: Path) -> list[str]:
    """The `podman` command that keeps all it has below one folder."""
    # runc, because crun refuses machines with both versions of control groups.
    places = ["--root", f"{directory}/root", "--runroot", f"{directory}/run", "--tmpdir", f"{directory}/tmp"]
    return ["podman", *places, "--cgroup-manager", "cgroupfs", "--runtime", "runc", "--events-backend", "file"]


class Podman:
    """One service. `stop` and `start` again keep its containers, as a daemon's restart does."""

    def __init__(self, directory: Path) -> None:
        missing = [tool for tool in ("podman", "runc", "mmdebstrap") if shutil.which(tool) is None]
        if os.geteuid() != 0:
            raise Unavailable("needs root")
        if missing:
            raise Unavailable(f"not installed: {', '.join(missing)} (apt-get install podman runc mmdebstrap)")
        self.directory = directory
        self.url = f"unix://{directory}/podman.sock"
        self._before = {str(_LOCKS)} if _LOCKS.exists() else set()
        self._before |= set(glob.glob(_CGROUPS))
        self._service: subprocess.Popen[bytes] | None = None
        self._namespace = MountNamespace()

    def start(self) -> None:
        """Start the service and wait until it answers."""
        place = self.directory
        command = self._namespace.command(*with_own_storage(place), "system", "service", "--time=0", self.url, folder=place)
        with open(place / "log", "ab") as log:
            # conmon leaves an empty file called "oom" where the service was started when a container runs out of memory.
            self._service = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < end and self._service.poll() is None:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(self.url.removeprefix("unix://"))
                return
            time.sleep(0.1)
        self.stop()
        raise Unavailable(f"the service did not start: {self._log_end()}")

    def revive(self) -> None:
        """Start a service that died by itself again, as systemd would: it is not what these tests are about."""
        if self._service is not None and (status := self._service.poll()) is not None:
            print(f"the Podman service ended by itself ({status}): {self._log_end()}", file=sys.stderr)
            self.start()

    def _log_end(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-1500:]

    def stop(self) -> None:
        """Kill the service. Containers go on, as they do under Podman."""
        if self._service is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._service.pid, signal.SIGKILL)
            self._service.wait()
            self._service = None

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        import docker

        client = docker.DockerClient(base_url=self.url, version="1.41", timeout=60)
        try:
            yield client
        finally:
            client.close()

    def load_image(self) -> None:
        cache = Path(os.environ.get(CACHE) or self.directory)
        tar = cache / "image.tar"
        if not tar.exists():
            cache.mkdir(parents=True, exist_ok=True)
            unfinished = cache / f"image-{os.getpid()}.tar"
            place = {**os.environ, "TMPDIR": str(self.directory)}
            command = self._namespace.command(HERE / "image.sh", unfinished, folder=HERE)
            made = subprocess.run(command, env=place, capture_output=True, text=True, check=False)
            if made.returncode != 0:
                unfinished.unlink(missing_ok=True)
                raise Unavailable(f"the image could not be made: {made.stderr.strip()[-800:]}")
            unfinished.rename(tar)
        with self.client() as client:
            name, _, tag = IMAGE.partition(":")
            client.api.import_image(src=str(tar), repository=name, tag=tag)
            if not client.images.list(name=IMAGE):
                raise Unavailable(f"the image was not imported: {self._log_end()}")

    def containers(self) -> list[Any]:
        """Every container of this service, running or not."""
        with self.client() as client:
            return list(client.api.containers(all=True))

    def remove(self) -> None:
        """Remove containers, service, mounts and files."""
        if self._service is not None:
            with contextlib.suppress(Exception), self.client() as client:
                for container in client.api.containers(all=True):
                    client.api.remove_container(container["Id"], force=True, v=True)
        self.stop()
        self._await_helpers()
        self._namespace.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        if str(_LOCKS) not in self._before:
            _LOCKS.unlink(missing_ok=True)
        for group in set(glob.glob(_CGROUPS)) - self._before:
            for directory, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(directory)

    def monitors(self) -> list[int]:
        """The processes above the containers: one each."""
        return [pid for pid in self._processes() if Path(f"/proc/{pid}/comm").read_text().startswith("conmon")]

    def _processes(self) -> list[int]:
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_ours(pid)]

    def _await_helpers(self) -> None:
        """Each container that ends has a helper clean up after it; a late one would mount the storage again."""
        end = time.monotonic() + _HELPERS_END_WITHIN_S
        while left := self._processes():
            if time.monotonic() > end:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def _is_ours(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            return words.partition(b"\0")[0].endswith((b"podman", b"conmon", b"runc")) and bytes(self.directory) in words
        return False


def _place() -> str | None:
    """Memory, where there is enough of it: on a disk, removing an image alone can take ten seconds."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > _ROOM_BYTES:
            return "/dev/shm"
    return None


@contextlib.contextmanager
def running_podman() -> Iterator[Podman]:
    """A service with the test image.

    Raises:
        Unavailable: it cannot run here.
    """
    directory = Path(tempfile.mkdtemp(prefix="verigym-podman-", dir=_place()))
    try:
        service = Podman(directory)
    except Unavailable:
        shutil.rmtree(directory)
        raise
    try:
        service.start()
        service.load_image()
        yield service
    finally:
        service.remove()


if __name__ == "__main__":
    with running_podman() as running:
        environment = {**os.environ, "DOCKER_HOST": running.url, "VERIGYM_TEST_IMAGE": IMAGE}
        raise SystemExit(subprocess.run(sys.argv[1:], env=environment, check=False).returncode)
