"""When the daemon or a container goes away: never a verdict, and the next run works as soon as it can."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.sandbox.docker.podman import IMAGE, Podman
from tests.sandbox.docker.support import docker_box
from verigym.sandbox import Limits, Program, RunResult, RunStatus, SandboxFailure
from verigym.sandbox.backends.container import ContainerSandbox

pytestmark = pytest.mark.slow

SLEEP = Program(source="import time; print('a', flush=True); time.sleep(2)")


@pytest.fixture(autouse=True)
def nothing_left(podman: Podman) -> Iterator[None]:
    before = {container["Id"] for container in podman.containers()}
    yield
    assert {container["Id"] for container in podman.containers()} <= before


def outcome_of(run: Callable[[], RunResult], then: Callable[[], Any]) -> RunResult | SandboxFailure:
    """What comes of a run when something happens in the middle of it."""
    found: list[RunResult | SandboxFailure] = []

    def work() -> None:
        try:
            found.append(run())
        except SandboxFailure as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.7)
    then()
    thread.join()
    return found[0]


def test_a_container_killed_in_the_middle_is_replaced(podman: Podman) -> None:
    with docker_box(podman, workers=1) as box:
        box.check()

        def kill() -> None:
            with podman.client() as client:
                client.api.kill(worker_id(box))

        result = outcome_of(lambda: box.run(SLEEP), kill)
        assert isinstance(result, RunResult), result  # the second try, on a container of its own
        assert result.ok
        assert result.stdout == b"a\n"


def test_a_container_killed_again_and_again_is_our_failure(podman: Podman) -> None:
    with docker_box(podman, workers=1) as box:
        box.check()
        stop = threading.Event()

        def kill() -> None:
            while not stop.wait(0.2):
                with podman.client() as client:
                    for container in client.api.containers():
                        if container["Id"] == worker_id(box):
                            client.api.kill(container["Id"])

        killer = threading.Thread(target=kill)
        try:
            result = outcome_of(
                lambda: box.run(Program(source="import time; time.sleep(20)"), limits=Limits(wall_s=30)), killer.start
            )
        finally:
            stop.set()
            killer.join()
        assert isinstance(result, SandboxFailure)
        assert result.retryable
        assert "137" in result.message
        assert box.run(Program(source="print(1)")).ok


# docker-py leaves the socket of a connection that failed to the garbage collector, which warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_daemon_gone_in_the_middle(podman: Podman) -> None:
    with docker_box(podman, workers=1) as box:
        box.check()
        try:
            result = outcome_of(lambda: box.run(SLEEP), podman.stop)
            assert isinstance(result, SandboxFailure)
            assert result.retryable
            assert "no container daemon answers" in result.message
            with pytest.raises(SandboxFailure, match="no container daemon answers"):
                box.run(SLEEP)
        finally:
            podman.start()
        assert box.run(Program(source="print(1)")).stdout == b"1\n"
        with podman.client() as client:  # what the daemon lost sight of has ended by itself
            running = {container["Id"] for container in client.api.containers()}
        assert running == {worker_id(box)}
    gc.collect()


def test_a_program_that_silences_its_container_is_cut_off(podman: Podman) -> None:
    source = "import os\nos.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))\nos.setpriority(os.PRIO_PROCESS, 1, 19)"
    with docker_box(podman, workers=1) as box:
        box.check()
        first = worker_id(box)
        box.run(Program(source=source))
        assert box.run(Program(source="import os; print(os.sched_getscheduler(0))")).stdout == b"0\n"
        box.run(Program(source="import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3))"))
        assert box.run(Program(source="print(1)")).ok
        assert worker_id(box) is not None
        assert first is not None


def test_containers_are_replaced_after_so_many_runs(podman: Podman) -> None:
    with docker_box(podman, workers=1, retire_after=3) as box:
        seen = []
        for _ in range(7):
            assert box.run(Program(source="print(1)")).ok
            seen.append(worker_id(box))
        assert len({container for container in seen if container is not None}) == 3


def test_strays_of_a_dead_supervisor_end_and_are_removed(podman: Podman) -> None:
    code = f"""
import os, signal
from verigym.sandbox.backends.container import ContainerSandbox
box = ContainerSandbox(image={IMAGE!r}, base_url={podman.url!r}, workers=1)
box.check()
print(len(box._made), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert dead.stdout == "1\n", dead.stderr
    time.sleep(1)
    states = {container["Id"]: container["State"] for container in podman.containers()}
    assert "exited" in states.values()  # its standard input has ended
    sweep(podman)


def test_a_fork_gets_containers_of_its_own(podman: Podman) -> None:
    code = f"""
import os
from verigym.sandbox import Program, open_sandbox
box = open_sandbox("docker", image={IMAGE!r}, base_url={podman.url!r}, workers=1)
assert box.run(Program(source="print(1)")).ok
pid = os.fork()
if pid == 0:
    ok = box.run(Program(source="print(2)")).stdout == b"2\\n"
    box.close()
    os._exit(0 if ok else 1)
assert os.waitpid(pid, 0)[1] == 0
assert box.run(Program(source="print(3)")).stdout == b"3\\n"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_many_at_once(podman: Podman) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def one(n: int) -> bool:
        return box.run(Program(source="print(int(input()) ** 2)"), stdin=f"{n}\n".encode()).stdout == f"{n * n}\n".encode()

    with docker_box(podman) as box, ThreadPoolExecutor(50) as threads:
        assert all(threads.map(one, range(300)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image": "localhost/absent:1"}, "docker pull localhost/absent:1"),
        ({"base_url": "unix:///nonexistent/docker.sock"}, "no container daemon answers at unix:///nonexistent"),
        ({"python": "python2.2"}, "python2.2"),
        ({"runtime": "runsc"}, "ignores runtime='runsc'"),
    ],
    ids=["image", "daemon", "python", "runtime"],
)
def test_what_is_missing_is_said(podman: Podman, options: dict[str, Any], message: str) -> None:
    with docker_box(podman, **options) as box:
        with pytest.raises(SandboxFailure, match=message) as failure:
            box.check()
        assert failure.value.status is RunStatus.INFRA


def test_no_options_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="cpus=0"):
        ContainerSandbox(cpus=0)
    with pytest.raises(ValueError, match="retire_after=0"):
        ContainerSandbox(retire_after=0)


def worker_id(box: ContainerSandbox) -> str | None:
    return next((worker.id for worker in box._made if not worker.closed), None)


def sweep(podman: Podman) -> None:
    """Another supervisor's start removes what the dead have left."""
    code = f"""
from verigym.sandbox.backends.container import ContainerSandbox
box = ContainerSandbox(image={IMAGE!r}, base_url={podman.url!r}, workers=1)
box.check()
box.close()
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})
