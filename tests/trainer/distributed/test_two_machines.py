"""torchrun with two nodes, each in a network namespace of its own: what several machines with a shared folder do.

Each has its own loopback and one address; they meet over a virtual cable. A process that took an address of the wrong network,
or the machine's name, would not find the other.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import HANG_S
from run_together import compute_exactly, run_all
from together import SUPPORT, distance, metrics, settings

from tests.support.needs import lack, needs

STEPS = 2
CABLE = (f"vg{os.getpid() % 100000}a", f"vg{os.getpid() % 100000}b")
ADDRESSES = ("10.231.7.1", "10.231.7.2")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)


@pytest.fixture
def machines() -> Iterator[tuple[str, str]]:
    """Two network namespaces that are joined by a cable."""
    try:
        for name in CABLE:
            ip("netns", "add", name)
        ip("link", "add", CABLE[0], "netns", CABLE[0], "type", "veth", "peer", "name", CABLE[1], "netns", CABLE[1])
        for name, address in zip(CABLE, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", name)
            ip("-n", name, "link", "set", name, "up")
            ip("-n", name, "link", "set", "lo", "up")
    except subprocess.CalledProcessError as error:
        lack("root", f"network namespaces: {error.stderr.strip()}")
    else:
        yield CABLE
    finally:
        for name in CABLE:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=30)


@pytest.mark.slow
@needs("root", "ip")
@pytest.mark.parametrize("shard", ["optimizer", "full"])
def test_two_nodes_do_what_one_process_does(shard: str, machines: tuple[str, str], tmp_path: Path, letters_model: Path) -> None:
    fields = {"steps": STEPS, "eval_every": 0}
    both = settings(tmp_path / "both", letters_model, **fields, shard=shard)
    running = []
    for rank, name in enumerate(machines):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=1"]
        place = [f"--master-addr={ADDRESSES[0]}", "--master-port=29511", f"--local-addr={ADDRESSES[rank]}"]
        command = ["ip", "netns", "exec", name, *torchrun, *place, str(SUPPORT / "run_together.py"), str(both)]
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": name, "PYTHONPATH": os.pathsep.join(sys.path)}
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables))
    try:
        told = [process.communicate(timeout=HANG_S)[1] for process in running]
    finally:
        for process in running:
            process.terminate()  # torchrun ends its processes
    assert [process.returncode for process in running] == [0, 0], told[0][-3000:] + told[1][-3000:]
    with pytest.MonkeyPatch.context() as patch:
        compute_exactly(patch.setattr)
        run_all(settings(tmp_path / "one", letters_model, **fields))
    assert distance(tmp_path / "both", tmp_path / "one") < 1e-8
    assert [row["reward"] for row in metrics(tmp_path / "both")] == [row["reward"] for row in metrics(tmp_path / "one")]
