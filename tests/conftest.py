"""Fixtures for more than one folder."""

from __future__ import annotations

import gc
import hashlib
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no reason to fail: how long inputs take to be made says nothing of the code.
settings.register_profile("any-machine", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("any-machine")

_SUPPORT = str(Path(__file__).parent / "support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)

# A check that fails in a shared module shows its values too.
pytest.register_assert_rewrite(*(path.stem for path in Path(__file__).parent.rglob("support/*.py")))

import command_tree  # noqa: E402, F401
from catalogue import ROOT, named  # noqa: E402
from needs import SHARED, require, summary  # noqa: E402

# A shell starts what it runs in the background with SIGINT ignored, and whatever tests start would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before anything imports the hub's client, which reads this once: a hub that cannot be reached costs a minute of retries.
os.environ["HF_HUB_OFFLINE"] = "1"


# Importing torch and collecting the tests makes millions of objects that stay: the garbage collector need not look at them, now
# or later, which is a seventh of the tests' processor time.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on, collect garbage."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names that show a set or a gzip file's time, mark the faults, and begin with the files that take long.

    Both differ by process, and the parallel runner refuses tests whose names do. It gives a process whole files:
    one of minutes that came last would be waited for with the other core idle.
    """
    if seed := os.environ.get("VERIGYM_TEST_ORDER"):  # an order of its own, of files and of the tests in each
        items.sort(key=lambda item: [_place(seed, item.path.relative_to(ROOT)), _place(seed, item.nodeid)])
    else:
        slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
        items.sort(key=lambda item: -slow[item.path])
    for item in items:
        if (item.path.relative_to(ROOT).as_posix(), getattr(item, "originalname", "")) in named():
            item.add_marker("chaos")
        values = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        if any(isinstance(value, set | frozenset) and len(value) > 1 and str(value) in item.name for value in values):
            raise pytest.UsageError(f"{item.nodeid}: a set in a test's name has no order, write it as a list")
        packed = [value for value in values if isinstance(value, bytes) and value.startswith(b"\x1f\x8b")]
        if any(any(value[4:8]) and "\\x1f\\x8b" in item.name for value in packed):
            raise pytest.UsageError(f"{item.nodeid}: a gzip file in a test's name holds the time; give gzip.compress mtime=0")


def _place(seed: str, name: object) -> bytes:
    return hashlib.sha256(f"{seed}/{name}".encode()).digest()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need what is not here."""
    for marker in item.iter_markers("needs"):
        require(*marker.args)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not tested, and how to get it."""
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", [])]
    lines = summary(
        [reason[2] for reason in skipped if isinstance(reason, tuple)], len(terminalreporter.stats.get("passed", []))
    )
    if lines:
        terminalreporter.section("not tested")
    for line in lines:
        terminalreporter.line(line)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The maintainers' real data; the test skips where it is not there."""
    require("shared data")
    return SHARED / "data"


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Any:
    """A tokenizer of a few hundred tokens."""
    from verigym.trainer.models.scratch import scratch_tokenizer

    return scratch_tokenizer(["12+34=?\n<think>2+4=6</think>\\boxed{46}", "How many days are 4 weeks and 3 days?"])


@pytest.fixture(scope="session")
def tiny_model(tiny_tokenizer: Any) -> Any:
    """A model of two layers with weights large enough that its distributions are not flat. Do not train it."""
    import torch

    from verigym.trainer.models.scratch import scratch_qwen3

    model = scratch_qwen3(tiny_tokenizer, hidden_size=32, layers=2, heads=2, intermediate_size=64, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(6)
    return model.eval()
