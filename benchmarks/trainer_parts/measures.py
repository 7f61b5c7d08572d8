"""What is measured, one function each, and the command line of `benchmarks/trainer.py`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version

import torch
import transformers

from trainer_parts import setting
from trainer_parts.limit import generation_s, update_s
from trainer_parts.ours import Ours
from trainer_parts.peer_generate import transformers_generate
from trainer_parts.reward import Waiting
from trainer_parts.rows import extra_peak_bytes, make_rows
from trainer_parts.setting import LARGE, LEAST, PRETRAINED, STEP, UPDATE, Shape, make_model

HAS_TRL = importlib.util.find_spec("trl") is not None
if HAS_TRL:
    from trainer_parts.theirs import Theirs

Ratios = dict[str, float]
clock = time.perf_counter


def synchronized() -> float:
    """Wait for the GPU, and return the time."""
    torch.cuda.synchronize()
    return time.perf_counter()


def in_turns(repeats: int, **sides: Callable[[int], object]) -> dict[str, float]:
    """Return the median seconds of each side, after a round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(repeats + 1):
        for name, do in sides.items():
            start = clock()
            do(number)
            times[name].append(clock() - start)
    return {name: show(name, seconds[1:]) for name, seconds in times.items()}


def show(name: str, seconds: list[float], note: str = "") -> float:
    """Print one side and return its median."""
    median = statistics.median(seconds)
    print(f"  {name:<38} {median:8.3f} s   ({min(seconds):.3f} to {max(seconds):.3f}, {len(seconds)} times){note}", flush=True)
    return median


def gradients(repeats: int) -> Ratios:
    """Both sides' gradients of one batch, lengths as they fall, some tokens clipped: before anything is timed."""
    shape = Shape(prompts=4, group=4, prompt_tokens=48, new_tokens=64, mean_tokens=30)
    rows = make_rows(shape, "agreement", off_policy=1.0)
    worst = 0.0
    for loss in ("grpo", "dapo", "dr_grpo"):
        ours, theirs = Ours(shape, loss=loss), Theirs(shape, loss=loss)
        ours.gradient(rows)
        theirs.gradient(rows)
        mine, other = (
            torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).double()
            for model in (ours.model, theirs.trainer.model)
        )
        difference = float((mine - other).norm() / other.norm())
        print(f"  {loss:<38} {difference:.1e} relative difference of the gradients")
        if not difference < 1e-4:
            raise SystemExit(f"the gradients of {loss} differ: the two sides do not do the same work, so nothing is timed")
        worst = max(worst, difference)
        ours.close()
        theirs.close()
    return {"gradient_difference": worst}


def whole_step(shape: Shape, repeats: int, name: str) -> Ratios:
    """Prompts to new weights: tokenizing, generation, verdicts, advantages, gradient, clipping, AdamW."""
    rows = 32 if setting.DEVICE.type == "cuda" else 8
    ours, theirs = Ours(shape), Theirs(shape, steps=repeats + 1, rows_at_a_time=rows)
    own, others = theirs.train_in_turns(ours.step, clock)
    skip = shape.rows  # the first step of each side is not counted
    mean_theirs, mean_ours = (statistics.mean(side.lengths[skip:]) for side in (theirs, ours))
    slow = show("TRL", own[1:], f"  {mean_theirs:.0f} tokens a completion")
    quick = show("ours", others[1:], f"  {mean_ours:.0f} tokens a completion")
    ours.close()
    theirs.close()
    return {name: slow / quick, f"{name}_per_token": slow / mean_theirs / (quick / mean_ours)}


def step(repeats: int) -> Ratios:
    """The case we are made for."""
    return whole_step(STEP, repeats, "step")


def large(repeats: int) -> Ratios:
    """A model that a GPU is for."""
    return whole_step(LARGE, repeats, "step_large")


def pretrained(repeats: int) -> Ratios:
    """A pretrained model with a real vocabulary."""
    return whole_step(PRETRAINED, repeats, "step_pretrained")


def limit(repeats: int) -> Ratios:
    """Our update and generation against this machine's matrix products at the model's shapes, in CPU seconds."""
    ours = Ours(PRETRAINED, budget=1024)
    rows = make_rows(PRETRAINED, "limit")
    ours.codec.eos_ids = frozenset()  # all completions have all tokens
    share = {}
    for name, do, least_s in (
        ("update", lambda _: ours.gradient(rows), update_s(ours.model, PRETRAINED, 1024)),
        ("generation", ours.generate, generation_s(ours.model, PRETRAINED)),
    ):
        seconds = in_turns(repeats, **{name: do})[name]
        print(f"  {f'its matrix products alone, {name}':<38} {least_s:8.3f} s", flush=True)
        share[f"{name}_of_limit"] = least_s / seconds
    ours.close()
    return share


def least(repeats: int) -> Ratios:
    """The case with the least to gain: hardly a prompt to share, no length to save, pairs instead of groups."""
    return whole_step(LEAST, repeats, "step_least")


def update(repeats: int) -> Ratios:
    """Forward and backward pass alone, with eight rows' tokens at a time on both sides."""
    rows = make_rows(UPDATE, "update")
    ours = Ours(UPDATE, budget=update_budget())
    plain, saving = Theirs(UPDATE), Theirs(UPDATE, checkpointing=True)
    assert saving.trainer.model.is_gradient_checkpointing and not plain.trainer.model.is_gradient_checkpointing
    seconds = in_turns(
        repeats,
        ours=lambda _: ours.gradient(rows),
        TRL=lambda _: plain.gradient(rows),
        TRL_with_checkpointing=lambda _: saving.gradient(rows),
    )
    for side in (ours, plain, saving):
        side.close()
    memory = {side: peak_of_child(side) for side in ("ours", "TRL", "TRL_with_checkpointing")}
    return {
        "update_time": seconds["TRL"] / seconds["ours"],
        "update_memory": memory["ours"] / memory["TRL"],
        "update_time_checkpointing": seconds["TRL_with_checkpointing"] / seconds["ours"],
        "update_memory_checkpointing": memory["ours"] / memory["TRL_with_checkpointing"],
    }


def update_budget() -> int:
    """As many tokens as the eight padded rows that TRL takes at a time."""
    return 8 * (UPDATE.prompt_tokens + UPDATE.new_tokens)


def peak_of_child(side: str) -> int:
    """Return the extra peak memory of an update in a process of its own, in bytes."""
    command = [sys.executable, sys.argv[0], "--threads", str(torch.get_num_threads()), "--memory-of", side]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = int(done.stdout.split()[-1])
    print(f"  {side:<38} {found / 2**20:8.0f} MiB above the process at rest", flush=True)
    return found


def memory_of(name: str) -> int:
    """Measure what `peak_of_child` asks for. A small update comes first: libraries are loaded, gradients allocated."""
    if name == "ours":
        side = Ours(UPDATE, budget=update_budget())
    else:
        side = Theirs(UPDATE, checkpointing=name == "TRL_with_checkpointing")
    rows = make_rows(UPDATE, "update")
    small = make_rows(Shape(UPDATE.prompts, UPDATE.group, 8, 8, None, UPDATE.vocabulary), "small")
    side.gradient(small)
    peak = extra_peak_bytes(lambda: side.gradient(rows))
    side.close()
    return peak


def generation(repeats: int) -> Ratios:
    """Completions as they fall, the prompt's tokens given."""
    ours, model = Ours(STEP), make_model(STEP)
    tokens = {"ours": 0, "transformers": 0}

    def count(name: str, found: int) -> None:
        tokens[name] += found

    seconds = in_turns(
        repeats,
        ours=lambda n: count("ours", ours.generate(n)),
        transformers=lambda n: count("transformers", transformers_generate(model, STEP, n)),
    )
    ours.close()
    rounds = (repeats + 1) * STEP.rows
    print("  tokens a completion: " + ", ".join(f"{name} {found / rounds:.0f}" for name, found in tokens.items()))
    ratio = seconds["transformers"] / seconds["ours"]
    return {"generation": ratio, "generation_per_token": ratio * tokens["ours"] / tokens["transformers"]}


def equal_rewards(repeats: int) -> Ratios:
    """An update in which half of the groups have equal rewards, against one in which none has."""
    full, half = make_rows(STEP, "half"), make_rows(STEP, "half", zero_groups=STEP.prompts // 2)
    ours = Ours(STEP)
    seconds = in_turns(repeats, all_groups=lambda _: ours.gradient(full), half=lambda _: ours.gradient(half))
    ours.close()
    return {"half_equal_rewards": seconds["half"] / seconds["all_groups"]}


def grading(repeats: int) -> Ratios:
    """Generation with a verifier that takes 50 ms a completion, against generation with one that takes no time."""
    global clock
    clock = time.perf_counter  # waiting is what is measured
    workers = os.cpu_count() or 1
    free, waiting = Ours(STEP, workers=workers), Ours(STEP, environment=Waiting(), workers=workers)
    for side in (free, waiting):
        side.grader.start()
    seconds = in_turns(repeats, alone=free.rollout, with_50_ms_verifier=waiting.rollout)
    after = seconds["alone"] + STEP.rows * Waiting.wait_s / workers
    print(f"  {'graded afterwards it would be':<38} {after:8.3f} s   ({workers} grading processes)")
    for side in (free, waiting):
        side.close()
    return {"grading_while_generating": seconds["with_50_ms_verifier"] / seconds["alone"]}


# name: (what, target of the first ratio, whether TRL is needed)
MEASURES: dict[str, tuple[Callable[[int], Ratios], str, bool]] = {
    "gradients": (gradients, "the gradients of both sides agree", True),
    "step": (step, "whole step, 4 prompts of 256 tokens x 8, lengths as they fall: at least 3", True),
    "large": (large, "whole step of half a billion parameters, 8 prompts of 256 tokens x 8, lengths as they fall", True),
    "pretrained": (pretrained, "whole step of a pretrained model (--model), 4 prompts of 95 tokens x 8: at least 2.5", True),
    "limit": (limit, "shares of the limit of this machine's matrix products (--model): update 0.8, generation 0.65", False),
    "least": (least, "whole step, 4 prompts of 32 tokens x 2, all of 128 tokens: at least 1.2", True),
    "update": (update, "update alone, 256 + 128 tokens, vocabulary 32,768: time at least 2.5, memory at most 0.5", True),
    "generation": (generation, "generation, lengths as they fall: at least 3", False),
    "equal_rewards": (equal_rewards, "half of the groups with equal rewards: at most 0.6 of the full update", False),
    "grading": (grading, "grading while generating, 50 ms a verdict: at most 1.1 of generation alone", False),
}


WITH_MODEL = ("pretrained", "limit")
ONLY_ASKED = ("large", *WITH_MODEL)


def main(description: str) -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="of torch, on both sides")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--cpu", action="store_true", help="CPU seconds of this process instead of wall time; grading: wall time"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda measures `large` alone, in bf16")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=[name for name in MEASURES if name not in ONLY_ASKED])
    parser.add_argument("--model", help="folder of a pretrained model, for `pretrained` and `limit`, which are then all")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    global clock
    if arguments.cpu:
        clock = time.process_time
    if arguments.model:
        setting.MODEL = arguments.model
        arguments.only = [name for name in arguments.only if name in WITH_MODEL] or list(WITH_MODEL)
    elif set(arguments.only) & set(WITH_MODEL):
        raise SystemExit(f"{', '.join(WITH_MODEL)} measure a pretrained model: name its folder by --model")
    if arguments.device == "cuda":
        arguments.only = ["large"]
        setting.DEVICE = torch.device("cuda")
        clock = synchronized
    torch.set_num_threads(arguments.threads)
    transformers.utils.logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=FutureWarning)
    if arguments.memory_of:
        print(memory_of(arguments.memory_of))
        return
    peers = f"transformers {version('transformers')}, TRL {version('trl') if HAS_TRL else 'not installed'}"
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; torch {torch.__version__}, {peers}")
    number = "float32" if arguments.device == "cpu" else f"bf16 on {torch.cuda.get_device_name()}"
    print(f"{arguments.threads} threads, {number}, median of {arguments.repeats}, {'CPU' if arguments.cpu else 'wall'} seconds")
    ratios: Ratios = {}
    for name in arguments.only:
        measure, what, needs_trl = MEASURES[name]
        if needs_trl and not HAS_TRL:
            print(f"{name}: left out, because TRL is not installed here; docs/benchmarks.md says how to install it")
            continue
        print(f"{name}: {what}", flush=True)
        ratios.update(measure(arguments.repeats))
    assert torch.get_num_threads() == arguments.threads
    print(json.dumps({name: float(f"{ratio:.3g}") for name, ratio in ratios.items()}))
