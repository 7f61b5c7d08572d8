"""The panel that users run against their own machine: it holds here, and it notices where nothing is held."""

from __future__ import annotations

from collections import Counter

import pytest
from needs import lack

from verigym.sandbox import Sandbox, SandboxFailure, open_sandbox
from verigym.sandbox.checks.panel import PROBES, Probe
from verigym.sandbox.checks.selfcheck import ProbeResult, Report, self_check


@pytest.fixture(scope="module")
def box() -> Sandbox:
    found = open_sandbox("local")
    try:
        found.check()
    except SandboxFailure as error:
        lack("sandbox", error)
    return found


def test_the_panel_is_broad() -> None:
    assert len({probe.name for probe in PROBES}) == len(PROBES)
    groups = Counter(probe.group for probe in PROBES)
    assert set(groups) == {"forgery", "resources", "escape", "honest"}
    assert min(groups.values()) >= 15


@pytest.mark.slow
def test_the_panel_holds(box: Sandbox) -> None:
    seen: list[tuple[int, int]] = []
    report = self_check(box, progress=lambda done, total: seen.append((done, total)))
    assert [result for result in report.results if not result.passed] == []
    assert report.passed and seen[-1] == (len(PROBES), len(PROBES)) and len(seen) == len(PROBES)


@pytest.mark.parametrize(
    ("probe", "got"),
    [
        (Probe("right though it should not be", "print(2 * int(input()))\n", "rejected"), "accepted"),
        (Probe("wrong though it is called honest", "print(1)\n", "accepted"), "rejected"),
        (Probe("ends before its limit", "print(1)\n", "time"), "rejected"),
        (Probe("says that it leaks", "print('LEAK a thing')\n", "no leak"), "leak"),
        (Probe("a call that is right", "def f(n): return 2 * n\n", "rejected", "call"), "accepted"),
        (Probe("an assertion that is right", "def f(n): return 2 * n\n", "rejected", "assert"), "accepted"),
        (Probe("a probe that fails itself", "raise OSError\n", "no leak"), "runtime"),
    ],
    ids=lambda value: value.name if isinstance(value, Probe) else value,
)
def test_a_row_that_does_not_hold_says_so(box: Sandbox, probe: Probe, got: str) -> None:
    (result,) = self_check(box, probes=[probe]).results
    assert (result.got, result.passed) == (got, False)


def test_one_row_spoils_the_report() -> None:
    good = ProbeResult("a", "honest", "accepted", "accepted", True, "", 0.1)
    assert Report((good,)).passed
    assert not Report((good, ProbeResult("b", "escape", "no leak", "leak", False, "LEAK", 0.1))).passed
