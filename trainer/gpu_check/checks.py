"""The GPU checks, by name in `CHECKS`. A check returns measurements, or raises `Broken` if its requirement does not hold."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from verigym.trainer.engines.native import cuda_graphs
from verigym.trainer.engines.native.cuda_graphs import Record, Run
from verigym.trainer.gpu_check import speed
from verigym.trainer.gpu_check.configurations import CONFIGURATIONS
from verigym.trainer.gpu_check.runs import Ran, differences, overheard, run, share_equal
from verigym.trainer.gpu_check.task import ENVIRONMENTS, write_model
from verigym.trainer.monitoring.logs import read_rows

Figures = dict[str, float | str]
KEEP_SAMPLED: Mapping[str, Any] = {"correction": "token_truncated"}
"""Settings with which the sampler's log-probabilities are kept and compared with the learner's."""


class Broken(Exception):
    """Raised by a check whose requirement does not hold."""


@dataclass(frozen=True)
class Check:
    """A requirement that must hold on a GPU."""

    claim: str
    """What must hold, for a table."""
    find: Callable[[Path, str], Figures]
    """Takes an empty folder and the device, and returns figures."""
    packages: tuple[str, ...] = ()
    """Modules that it needs beside those of the extra `train`."""
    gpus: int = 1
    """GPUs that it needs."""


def require(holds: bool, otherwise: str) -> None:
    """Raise `Broken` with the text `otherwise` unless `holds`."""
    if not holds:
        raise Broken(otherwise)


def mismatch(done: Ran) -> float:
    """Return the difference between the sampler's and the learner's log-probabilities, in nats per token.

    The metric `logprob_mismatch` of a step is a mean over its tokens; the result is the largest of these in the run `done`.
    """
    # A step whose rewards are all equal has none.
    return max(float(row["logprob_mismatch"]) for row in done.rows if "logprob_mismatch" in row)


def rates(place: Path, device: str) -> Figures:
    """Measure how fast the device copies memory and multiplies matrices: a yardstick for the speeds of other checks."""
    where = torch.device(device)
    return {
        "copy_gb_s": speed.copy_rate(where) / 1e9,
        "bf16_tflop_s": speed.matmul_rate(where, torch.bfloat16) / 1e12,
        "fp32_tflop_s": speed.matmul_rate(where, torch.float32, 4096) / 1e12,
    }


def compared(
    place: Path, device: str, configurations: Mapping[str, Mapping[str, Any]] = CONFIGURATIONS, **more: Any
) -> Figures:
    """Check, for each of `configurations`, that a run on the device computes the same as a run on the CPU.

    Their first steps must be the same. Later differences are only reported: a gradient near zero may have the other sign, and
    Adam turns it into a step of full size.
    """
    model = write_model(place / "model")
    off: dict[str, str] = {}
    worst, equal = 0.0, []
    for name, fields in configurations.items():
        native = fields.get("engine", "native") == "native"
        there = run(model, place / "there" / name, device=device, threads=1, **fields, **(more if native else {}))
        here = run(model, place / "here" / name, device="cpu", threads=1, **fields)
        found = differences(there.rows[0], here.rows[0])
        worst = max(worst, *found.values())
        equal.append(share_equal(there.texts, here.texts))
        if there.texts[0] != here.texts[0]:
            off[name] = f"other texts ({share_equal(there.texts[:1], here.texts[:1]):.0%} equal)"
        elif too_far := [f"{figure} {times:.0f} times the tolerance" for figure, times in found.items() if times > 1]:
            off[name] = ", ".join(too_far)
        if said := set(there.said) - set(here.said):  # such as that a fast path is not taken
            off[name] = "; ".join(said)
    require(not off, f"{len(off)} of {len(configurations)} runs differ from the CPU's in their first step: {off}")
    return {"runs": len(configurations), "worst_of_tolerance": worst, "texts_equal": min(equal)}


def learns(place: Path, device: str) -> Figures:
    """Check that training in bf16 learns: after 30 steps the reward must be at least twice that of the first step."""
    done = run(write_model(place / "model"), place / "run", device=device, dtype="bf16", steps=30, group_size=8, **KEEP_SAMPLED)
    first, last = done.rows[0]["reward"], done.rows[-1]["reward"]
    gap = mismatch(done)
    require(last > 2 * first, f"the reward went from {first:.3f} to {last:.3f} in 30 steps")
    require(gap < 0.05, f"the sampler's and the learner's log-probabilities differ by {gap:.3g} a token in bf16")
    slow = [line for line in done.said if "own copy" in line or "are off" in line]
    require(not slow or device == "cpu", "; ".join(slow))  # a CPU has no kernels for the fast path in bf16
    return {"reward_first": first, "reward_last": last, "logprob_mismatch": gap}


def graphs(place: Path, device: str) -> Figures:
    """Check that sampling with CUDA graphs, without them, and with transformers' `generate` gives the same tokens in fp32.

    Also check that graphs were captured.
    """
    model = write_model(place / "model")
    made: list[object] = []
    real = cuda_graphs.cuda_record

    def counting() -> Record:
        record = real()

        def counted(work: Run) -> tuple[Callable[[], None], torch.Tensor]:
            made.append(None)
            return record(work)

        return counted

    fields: dict[str, Any] = {"device": device, "max_new_tokens": 64, "group_size": 8, **KEEP_SAMPLED}
    cuda_graphs.cuda_record = counting
    try:
        fast = run(model, place / "graphs", cuda_graphs=True, **fields)
    finally:
        cuda_graphs.cuda_record = real
    slow = run(model, place / "none", cuda_graphs=False, **fields)
    other = run(model, place / "transformers", engine="transformers", **fields)
    require(bool(made), "no step was captured: " + "; ".join(fast.said))
    for name, texts in (("without graphs", slow.texts), ("with engine transformers", other.texts)):
        share = share_equal(fast.texts[:1], texts[:1])
        require(share == 1, f"{share:.0%} of the first step's texts are those {name}")
    gap = mismatch(fast)
    require(gap < 1e-4, f"the sampler's and the learner's log-probabilities differ by {gap:.3g} a token in fp32")
    return {"captured": len(made), "logprob_mismatch": gap}


def resumed(place: Path, device: str) -> Figures:
    """Check that a run that is stopped and resumed gives nearly the same final weights as a run without a stop.

    Two runs of 4 steps without a stop show how much the weights differ if a run is only repeated. A third run is stopped after
    2 steps and resumed. Its weights may differ from the first run's by twice as much, or by up to 1e-5.
    """
    model = write_model(place / "model")
    fields: dict[str, Any] = {"device": device, "checkpoint_every": 1, "steps": 4}
    whole, again = (run(model, place / name, **fields) for name in ("whole", "again"))
    run(model, place / "halves", **{**fields, "steps": 2})
    halves = run(model, place / "halves", **fields)
    repeated, gone_on = distance(whole, again), distance(whole, halves)
    require(gone_on <= max(2 * repeated, 1e-5), f"weights are {gone_on:.2g} off after a resume, {repeated:.2g} when repeated")
    return {"repeated_weights_off": repeated, "resumed_weights_off": gone_on}


def distance(one: Ran, other: Ran) -> float:
    """Return the largest absolute difference between the final weights of the runs `one` and `other`."""
    from safetensors.torch import load_file

    mine, theirs = (load_file(done.model / "model.safetensors") for done in (one, other))
    return max(float((mine[name] - theirs[name]).abs().max()) for name in mine)


def overlapped(place: Path, device: str) -> Figures:
    """Check that a run that samples the next step during an update computes the same on the device as on the CPU.

    The sampling has its own thread, and uses CUDA graphs on the device.
    """
    return compared(place, device, {"one_step": {"overlap": "one_step", "steps": 4}})


def eight_bits(place: Path, device: str) -> Figures:
    """Train with 8-bit moments, and with adapters on a 4-bit base."""
    model = write_model(place / "model", hidden_size=256, intermediate_size=512)
    plain = run(model, place / "plain", device=device, dtype="bf16", learning_rate=1e-3, steps=3)
    small = run(model, place / "eight", device=device, dtype="bf16", learning_rate=1e-3, steps=3, optimizer="adamw_8bit")
    four = run(model, place / "four", device=device, dtype="bf16", lora_rank=8, lora_base="4bit", steps=3, **KEEP_SAMPLED)
    share = share_equal(plain.texts[:1], small.texts[:1])
    require(share == 1, f"the optimizer changes the first step's texts: {share:.0%} are equal")
    gap = mismatch(four)
    require(gap < 0.1, f"the sampler's and the learner's log-probabilities differ by {gap:.3g} a token on a base in 4 bits")
    return {"grad_norm_8bit": small.rows[-1]["grad_norm"], "logprob_mismatch_4bit": gap}


def liger(place: Path, device: str) -> Figures:
    """Check that training with Liger's kernels gives the same metrics in the first step as training without them.

    Also check that the kernels have replaced modules of the model.
    """
    from verigym.trainer.models.liger import use_liger
    from verigym.trainer.models.loading import load_model

    model = write_model(place / "model", hidden_size=256, intermediate_size=512)
    fields: dict[str, Any] = {"device": device, "learning_rate": 1e-3}
    plain, fused = run(model, place / "plain", **fields), run(model, place / "liger", liger=True, **fields)
    # Last: what it puts into the module of transformers stays for all models of this process.
    patched, _ = load_model(model, torch.device(device))
    use_liger(patched, torch.device(device))
    replaced = liger_modules(patched)
    require(replaced > 0, "no module of the model was replaced by Liger's")
    share = share_equal(plain.texts[:1], fused.texts[:1])
    found = differences(plain.rows[0], fused.rows[0])
    require(share >= 0.9, f"{share:.0%} of the first step's texts are those without Liger")
    if share == 1:
        off = {name: times for name, times in found.items() if times > 10}
        require(not off, f"figures of the first step differ, in units of the tolerance: {off}")
    return {"replaced": replaced, "texts_equal": share, "worst_of_tolerance": max(found.values())}


def liger_modules(model: torch.nn.Module) -> int:
    """Return the number of modules in `model` whose functions Liger has replaced by its own."""
    functions = (getattr(module.forward, "__func__", module.forward) for module in model.modules())
    return sum(str(getattr(function, "__module__", "")).startswith("liger_kernel") for function in functions)


def stages(place: Path, device: str) -> Figures:
    """Check that SFT, a reward model and a process reward model have the same first updates on the device as on the CPU."""
    from verigym.trainer.gpu_check.stages import first_updates

    found = first_updates(place, device)
    off = {name: times for name, times in found.items() if max(times.values()) > 1}
    require(not off, f"first updates differ from the CPU's, in units of the tolerance: {off}")
    return {name: max(times.values()) for name, times in found.items()}


def sampling(place: Path, device: str) -> Figures:
    """Measure the speed of sampling with and without CUDA graphs, and check that graphs are faster.

    A model of half a billion parameters in bf16 samples 64 completions of 256 tokens.
    """
    from verigym.trainer.engines.native.engine import NativeEngine
    from verigym.trainer.models.codec import Codec
    from verigym.trainer.models.loading import load_model

    config = speed.half_billion(place, device)
    model, tokenizer = load_model(config.model, torch.device(device))
    codec = Codec(tokenizer)
    prompts = [list(codec.encode_text(f"train {n} plus " * 24))[:128] for n in range(8)]
    found: dict[str, float] = {}
    for name, static in (("graphs", True), ("plain", False)):
        engine = NativeEngine(model, codec, rows_at_a_time=64, dtype="bf16", static_cache=static)
        with overheard() as said:
            found[f"tokens_s_{name}"] = tokens_a_second(engine, prompts, torch.device(device))
        require(not said, "; ".join(said))  # such as that a fast path was not taken
    require(found["tokens_s_graphs"] > found["tokens_s_plain"], f"CUDA graphs are no faster: {found}")
    return {**found}


def tokens_a_second(engine: Any, prompts: Sequence[Sequence[int]], device: torch.device) -> float:
    """Return how many tokens `engine` samples per second, with 8 completions per prompt."""
    keys = [[("speed", p, g) for g in range(8)] for p in range(len(prompts))]
    made: list[list[list[Any]]] = []

    def sample() -> None:
        made.append(engine.generate(prompts, keys, max_new_tokens=256, temperature=1.0, on_finished=lambda *_: None))

    seconds = speed.timed(sample, 2, device)
    return sum(len(one.token_ids) for group in made[-1] for one in group) / seconds


def whole_steps(place: Path, device: str) -> Figures:
    """Check that training half a billion parameters in bf16 for 4 steps needs no more memory than `--dry-run` estimates."""
    from verigym.trainer.dry_run.estimate import estimate_run
    from verigym.trainer.loop import train

    config = speed.half_billion(place, device, steps=4, **KEEP_SAMPLED)
    estimate = estimate_run(config, ENVIRONMENTS)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    train(config, ENVIRONMENTS)
    peak = torch.cuda.max_memory_allocated()
    rows = [row for row in read_rows(config.output / "metrics.jsonl") if row["kind"] == "train"]
    last = rows[-1]
    figures: Figures = {"peak_gb": peak / 1e9, "estimated_gb": estimate.most_memory.peak / 1e9}
    figures |= {name: last[name] for name in sorted(last) if name.endswith("_s") or name == "logprob_mismatch"}
    said = f"the run took {figures['peak_gb']:.1f} GB, and --dry-run said {figures['estimated_gb']:.1f}"
    require(peak <= 1.05 * estimate.most_memory.peak, said)
    return figures


def several(place: Path, device: str) -> Figures:
    """Check that two processes over NCCL with sharded weights have the same first step as a single process.

    The completions must be the same. Differences of the metrics and of the final weights are only reported.
    """
    model = write_model(place / "model")
    alone = run(model, place / "alone", device=device, cuda_graphs=False)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "verigym.trainer.gpu_check.child", "run", str(model), str(place / "together"), device]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    require(done.returncode == 0, "torchrun: " + done.stderr[-1500:])
    together = run(model, place / "together", device=device, cuda_graphs=False)  # finished already: reads what is there
    share = share_equal(alone.texts[:1], together.texts[:1])
    require(share == 1, f"{share:.0%} of the first step's texts are those of one process")
    found = differences(alone.rows[0], together.rows[0])
    return {"worst_of_tolerance": max(found.values()), "weights_off": distance(alone, together)}


def vllm(place: Path, device: str) -> Figures:
    """Check vLLM in this process, with its memory released during updates.

    Its log-probabilities must stay equal to the learner's after updates of the weights.
    """
    model = write_model(place / "model", hidden_size=256, intermediate_size=512)
    fields: dict[str, Any] = {"device": device, "learning_rate": 1e-3, "steps": 4, "max_new_tokens": 64}
    done = run(model, place / "run", engine="vllm", dtype="bf16", **KEEP_SAMPLED, **fields)
    gap = mismatch(done)
    require(gap < 0.05, f"log-probabilities differ by {gap:.3g} a token: were the weights pushed?")
    return {"logprob_mismatch": gap}


CHECKS: Mapping[str, Check] = {
    "rates": Check("the device answers; its own rates", rates),
    "runs": Check("losses, KL, critic, adapters and the rest give the CPU's texts and figures", compared, ("peft",)),
    "graphs": Check("CUDA graphs are captured and change no token", graphs),
    "learning": Check("bf16 learns, and the sampler's log-probabilities are the learner's", learns),
    "resume": Check("a run that was stopped ends with the weights of one that was not", resumed),
    "overlap": Check("overlap: one_step samples the CPU's texts beside an update", overlapped),
    "stages": Check("SFT, a reward model and a process reward model begin as on the CPU", stages),
    "eight_bits": Check("8-bit moments and 4-bit bases train", eight_bits, ("bitsandbytes", "peft")),
    "liger": Check("Liger's kernels give the figures that the model's own modules give", liger, ("liger_kernel",)),
    "sampling": Check("half a billion parameters are sampled, with graphs and without", sampling),
    "step": Check("half a billion parameters train within the memory that --dry-run says", whole_steps),
    "nccl": Check("two processes over NCCL train as one does", several, gpus=2),
    "vllm": Check("vLLM sleeps, wakes and gets every update's weights", vllm, ("vllm",)),
}
