"""The daemon of Docker or Podman: connects to it, explains its errors, removes containers of supervisors that have died.

A supervisor is a process that opened the sandbox.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from verigym.sandbox.spec import SandboxFailure

OWNER = "verigym.sandbox.owner"
"""Label of our containers; its value names their supervisor."""

_ANSWERS_WITHIN_S = 20.0
_REMOVAL_PAUSES_S = (0.0, 0.2, 1.0)  # a daemon may refuse while the container is just ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """The address of the Docker daemon, and the settings common to all containers of a sandbox."""

    base_url: str | None
    image: str
    python: str
    runtime: str | None
    cpus: float | None
    owner: str
    packages: Sequence[str]
    """Names of packages that programs may import."""
    all_packages: bool
    """Whether the image must contain each of them."""
    lost: list[str] = field(default_factory=list)
    """Ids of containers that could not be removed because the daemon was down."""

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        """Context manager that connects to the daemon, yields the client, and turns the daemon's errors into SandboxFailure."""
        docker = _docker()
        from requests.exceptions import RequestException

        client = None
        try:
            client = self._connect(docker)
            yield client
        except docker.errors.ImageNotFound:
            raise SandboxFailure(
                f"the container image {self.image!r} is not on this machine. Get it: docker pull {self.image}. "
                "Any image with Python 3.11 or newer as python3 will do; compilers in it give more languages",
                retryable=False,
            ) from None
        except docker.errors.APIError as error:
            raise SandboxFailure(f"the container daemon refused: {error.explanation or error}", retryable=False) from None
        except (docker.errors.DockerException, RequestException, OSError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            where = self.base_url or os.environ.get("DOCKER_HOST") or "its usual socket"
            raise SandboxFailure(
                f"no container daemon answers at {where}: {reason}. Start Docker or `podman system service`, or give base_url=",
                retryable=self.base_url in _versions,  # one that has answered before may come back
            ) from None
        finally:
            if client is not None:
                client.close()

    def _connect(self, docker: Any) -> Any:
        if self.base_url is not None and self.base_url.startswith("unix://"):
            with socket.socket(socket.AF_UNIX) as probe:  # the client would wrap the reason three times
                probe.connect(self.base_url.removeprefix("unix://"))
        # Podman takes half a second to name its API version, so it is asked once.
        options = {"version": _versions.get(self.base_url), "timeout": _ANSWERS_WITHIN_S}
        client = docker.DockerClient(base_url=self.base_url, **options) if self.base_url else docker.from_env(**options)
        _versions[self.base_url] = client.api.api_version
        return client


_versions: dict[str | None, str] = {}


def _docker() -> Any:
    try:
        import docker
    except ImportError:
        raise SandboxFailure("the docker back end needs a package: pip install 'verigym[docker]'", retryable=False) from None
    return docker


def remove_container(api: Any, container: str) -> bool:
    """Kill and remove the container with the id `container`. Returns whether it is gone.

    Args:
        api: client of the daemon.
        container: the container's id.
    """
    from docker.errors import APIError, NotFound

    for pause in _REMOVAL_PAUSES_S:
        time.sleep(pause)
        try:
            api.remove_container(container, force=True, v=True)
        except NotFound:
            return True
        except APIError:
            continue
    return False


def sweep(daemon: Daemon, *, ours: bool = False) -> Sequence[str]:
    """Remove the containers of dead supervisors, and containers that could not be removed earlier.

    Args:
        daemon: the daemon that runs the containers.
        ours: whether to also remove all containers that this process started.

    Returns:
        The ids of the removed containers.
    """
    gone = []
    with daemon.client() as client:
        for entry in client.api.containers(all=True, filters={"label": [OWNER]}):
            whose = entry["Labels"].get(OWNER, "")
            if is_dead(whose) or entry["Id"] in daemon.lost or (ours and whose == daemon.owner):
                with contextlib.suppress(Exception):  # it can wait for the next sweep
                    remove_container(client.api, entry["Id"])
                gone.append(entry["Id"])
        daemon.lost.clear()
    return gone


def owner(pid: int) -> str:
    """Return a label for the process `pid` that lets other processes tell whether it is alive.

    It consists of the machine, the pid namespace, `pid`, the start time and a nonce.
    """
    return "/".join((_here(), str(pid), _start_time(pid), secrets.token_hex(4)))


def is_dead(owner: str) -> bool:
    """Return whether the process that the label `owner` describes is known to have ended."""
    here, pid, start = (*owner.rsplit("/", 3), "", "")[:3]
    return here == _here() and pid.isdigit() and _start_time(int(pid)) != start


def _here() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()}/{os.stat('/proc/self/ns/pid').st_ino}"


def _start_time(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""
