"""How many cores may be used, and that judged programs and their numerical libraries use one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from verigym.sandbox import Limits, Program, Sandbox, cores
from verigym.sandbox.cores import cpu_quota, group_directories, usable_cores

V1_MOUNTS = (
    "30 25 0:26 / {root}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n31 25 0:27 / {root}/memory rw - cgroup cgroup rw,memory\n"
)
V2_MOUNTS = "30 25 0:26 / {root} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
QUOTAS = {
    # memberships, mounts, {file: content}, expected quota
    "v2": ("0::/job\n", V2_MOUNTS, {"job/cpu.max": "150000 100000\n"}, 1.5),
    "v2, of a group above": (
        "0::/job/part\n",
        V2_MOUNTS,
        {"job/cpu.max": "50000 100000", "job/part/cpu.max": "max 100000"},
        0.5,
    ),
    "v2, the smallest": (
        "0::/job/part\n",
        V2_MOUNTS,
        {"job/cpu.max": "400000 100000", "job/part/cpu.max": "200000 100000"},
        2.0,
    ),
    "v2, none": ("0::/job\n", V2_MOUNTS, {"job/cpu.max": "max 100000"}, None),
    "v1": (
        "5:cpu,cpuacct:/job\n0::/\n",
        V1_MOUNTS,
        {"cpu/job/cpu.cfs_quota_us": "300000", "cpu/job/cpu.cfs_period_us": "100000"},
        3.0,
    ),
    "v1, none": ("5:cpu:/job\n", V1_MOUNTS, {"cpu/job/cpu.cfs_quota_us": "-1", "cpu/job/cpu.cfs_period_us": "100000"}, None),
    "not of the CPU": ("6:memory:/job\n", V1_MOUNTS, {"memory/job/cpu.max": "50000 100000"}, None),
    "unreadable": ("0::/job\n", V2_MOUNTS, {"job/cpu.max": "what is this"}, None),
    "no groups": ("", "", {}, None),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_the_smallest_quota_of_the_groups_counts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memberships, mounts, files, expected = QUOTAS[name]
    for file, content in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    texts = {"/proc/self/cgroup": memberships, "/proc/self/mountinfo": mounts.format(root=str(tmp_path).replace(" ", "\\040"))}
    real = cores.read_file
    monkeypatch.setattr(cores, "read_file", lambda path: texts[path] if path in texts else real(path))
    # Groups of this machine above the folder of the test do not count.
    monkeypatch.setattr(
        cores, "group_directories", lambda *a: [g for g in group_directories(*a) if g.startswith(str(tmp_path))]
    )
    assert cpu_quota() == expected


@pytest.mark.parametrize(("affinity", "quota", "expected"), [(8, None, 8), (8, 2.0, 2), (8, 1.5, 1), (8, 0.5, 1), (2, 64.0, 2)])
def test_whole_cores_and_at_least_one(
    affinity: int, quota: float | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(affinity)))
    monkeypatch.setattr(cores, "cpu_quota", lambda: quota)
    assert usable_cores() == expected


def test_a_machine_without_control_groups_has_no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(cores, "read_file", missing)
    assert cpu_quota() is None


def test_numpy_in_a_judged_program_starts_no_threads(box: Sandbox) -> None:
    source = """
import numpy
numpy.ones((512, 512)) @ numpy.ones((512, 512))
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("Threads:")])
"""
    result = box.run(Program(source=source), limits=Limits(wall_s=120, cpu_s=60))
    assert result.stdout == b"['1']\n", result
