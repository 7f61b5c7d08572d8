"""The trainer on pretended CUDA: what the CPU samples and learns, and a device mix-up raises what CUDA would raise.

No GPU is needed: see support/pretend_cuda.py. CUDA graphs, Liger, bitsandbytes and vLLM ask for the real thing, and bf16 for
CUDA's autocast.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from needs import needs
from patience import HANG_S
from runs import rows, run, settings

from verigym.trainer.gpu_check.configurations import CONFIGURATIONS, FIGURES

pytestmark = [pytest.mark.slow, needs("peft")]

SCRIPT = Path(__file__).parent / "support/run_pretending.py"

QUICK = ("plain", "kl", "gae", "lora")

MIXED: Mapping[str, Mapping[str, Any]] = {
    "learner.update:padded": {},
    "learner.critic:padded": {"advantage": "gae"},
    "logprobs.forward:token_logprobs": {},
    "engines.native.generate:sample": {},
    "engines.native.llama_step:_normed": {},
    "engines.native.prefix_cache:_scores": {},
    "engines.native.prefix_cache:_with_room": {},
    "engines.native.prefix_cache:PrefixCache._by_prompt": {},
    "losses.token_level:clipped": {"epochs_per_step": 2},
    "engines.native.decoders:PlainDecoder.step": {},
}
"""Ten functions of the trainer whose results are put on the CPU, and settings under which they run."""


def run_pretending(runs: Sequence[Mapping[str, Any]], folder: Path) -> list[dict[str, Any]]:
    path = folder / "configs.json"
    path.write_text(json.dumps(list(runs)))
    done = subprocess.run([sys.executable, str(SCRIPT), str(path)], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(names: Sequence[str], model: Path, folder: Path) -> None:
    """The texts are the same; figures agree to rounding, for a subclass has other nodes in the graph of gradients."""
    runs = {name: {**CONFIGURATIONS[name], "steps": 2, "threads": 1, "samples_per_step": 16} for name in names}
    pretended = [
        settings(model, folder / "cuda" / name, device="cuda", **without_graphs(fields), **fields)
        for name, fields in runs.items()
    ]
    assert [one["error"] for one in run_pretending(pretended, folder) if "error" in one] == []
    for name, fields in runs.items():
        wanted = run(model, folder / "cpu" / name, **fields)
        found = rows(folder / "cuda" / name)
        texts = [read_texts(folder / device / name) for device in ("cpu", "cuda")]
        assert texts[0] == texts[1] and len(texts[0]) >= 8, name
        for there, here in zip(found, wanted, strict=True):
            figures = [{key: row[key] for key in FIGURES if key in row} for row in (there, here)]
            assert figures[0] == pytest.approx(figures[1], rel=1e-3, abs=1e-5), name


def without_graphs(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The setting that leaves CUDA graphs out, where the engine has them."""
    return {"cuda_graphs": False} if fields.get("engine", "native") == "native" else {}


def read_texts(output: Path) -> list[str]:
    return [json.loads(line)["completion"] for line in (output / "samples.jsonl").read_text().splitlines()]


def test_quick_runs_are_the_cpu_s(letters_model: Path, tmp_path: Path) -> None:
    compare(QUICK, letters_model, tmp_path)


def test_all_runs_are_the_cpu_s(letters_model: Path, tmp_path: Path) -> None:
    compare([name for name in CONFIGURATIONS if name not in QUICK], letters_model, tmp_path)


def test_a_device_mix_up_put_in_by_hand_is_caught_ten_times_of_ten(letters_model: Path, tmp_path: Path) -> None:
    runs = [
        settings(letters_model, tmp_path / str(number), device="cuda", cuda_graphs=False, steps=2, threads=1, mix=place, **more)
        for number, (place, more) in enumerate(MIXED.items())
    ]
    found = dict(zip(MIXED, run_pretending(runs, tmp_path), strict=True))
    # A fast path is tried first, and what it raises is logged, because the run goes on without it.
    assert len(found) == 10
    missed = {place: one for place, one in found.items() if "cuda:0 and cpu" not in str(one)}
    assert {place: str(one)[:200] for place, one in missed.items()} == {}
