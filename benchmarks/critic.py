"""What GRPO saves: PPO with a critic against GRPO, memory and time of a step, on the same model and the same completions.

    python benchmarks/critic.py [--threads N] [--repeats N] [--cpu]

Both sides are the trainer's own `Learner`. Generation and grading are the same for both and are timed once; the updates are
timed in turns in one process, by its own CPU time where there is no GPU, so that other work on the machine counts little.
Memory is counted, not sampled: weights, gradients, optimizer state, and what a forward pass keeps for its backward pass at
most. The last line is one JSON object of PPO's figures over GRPO's, medians.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

MIB = 2**20
SIDES = ("grpo", "ppo")


@dataclass
class Side:
    """What was measured of one learner."""

    learner: Any
    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    update_s: list[float] = field(default_factory=list)

    @property
    def standing(self) -> int:
        """Bytes that are there all the time."""
        return self.weights + self.gradients + self.optimizer


def make_side(preset: str, model: Path, output: Path, device: str, shape: Any) -> Side:
    """Return a learner with the preset's settings, the rest equal: one update a step, no KL, mean over tokens."""
    from verigym.trainer.config.run import build_config
    from verigym.trainer.learner.learner import Learner

    fields = {
        "model": str(model),
        "output": str(output / preset),
        "sources": [{"environment": "arithmetic", "name": "parity"}],
        "preset": preset,
        "aggregation": "token_mean",
        "kl_coef": 0.0,
        "prompts_per_step": shape.prompts,
        "group_size": shape.group,
        "max_new_tokens": shape.new_tokens,
        "device": device,
    }
    return Side(Learner(build_config(fields, "benchmark")))


def clock(device: Any) -> float:
    """Return seconds: of this process on a CPU, whatever else runs beside it, and of the wall on a GPU."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def update(side: Side, step: int, groups: Sequence[Any]) -> float:
    """Take one update and return its seconds."""
    start = clock(side.learner.device)
    side.learner.update(step, groups)
    return clock(side.learner.device) - start


def count(side: Side, groups: Sequence[Any]) -> None:
    """Take one update and count what is in memory; it is also the warm-up."""
    import torch

    from verigym.trainer.dry_run.kept import SavedBytes

    parts = [side.learner, side.learner.critic] if side.learner.critic else [side.learner]
    saved = SavedBytes(*(part.model for part in parts))
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
        update(side, 0, groups)
    for part in parts:
        parameters = list(part.model.parameters())
        side.weights += sum(parameter.nbytes for parameter in parameters)
        side.gradients += sum(parameter.grad.nbytes for parameter in parameters if parameter.grad is not None)
        state = part.optimizer.state.values()
        side.optimizer += sum(value.nbytes for values in state for value in values.values() if torch.is_tensor(value))
    side.activations = saved.peak


def main(repeats: int, threads: int | None, device: str) -> None:
    import torch
    import transformers
    from trainer_parts.ours import Ours
    from trainer_parts.setting import STEP, codec, make_model

    transformers.utils.logging.disable_progress_bar()
    if threads:
        torch.set_num_threads(threads)
    ours = Ours(STEP)
    generate_s = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model(STEP).save_pretrained(folder / "model")
        codec(STEP.vocabulary).tokenizer.save_pretrained(folder / "model")
        sides = {preset: make_side(preset, folder / "model", folder, device, STEP) for preset in SIDES}
        ours.model.to(sides["grpo"].learner.device)
        for step in range(repeats + 1):
            start = clock(ours.model.device)
            groups = [rename(group) for group in ours.rollout(step)]
            generate_s.append(clock(ours.model.device) - start)
            for side in (sides[preset] for preset in (SIDES if step % 2 else SIDES[::-1])):
                if step == 0:
                    count(side, groups)
                else:
                    side.update_s.append(update(side, step, groups))
    ours.close()
    report(sides, median(generate_s[1:]))


def rename(group: Any) -> Any:
    """Return the group under the name of the configuration's source."""
    from dataclasses import replace

    return replace(group, source="parity")


def report(sides: dict[str, Side], generate_s: float) -> None:
    import torch

    device, threads = sides["grpo"].learner.device, torch.get_num_threads()
    print(f"{device}, {threads} threads, medians; generation and grading {generate_s:.2f} s a step")
    print(
        f"{'':6s}{'weights':>10s}{'gradients':>11s}{'optimizer':>11s}{'activations':>13s} MiB{'update':>10s} s (least to most)"
    )
    for name, side in sides.items():
        sizes = (side.weights, side.gradients, side.optimizer, side.activations)
        print(
            f"{name:6s}{sizes[0] / MIB:10.1f}{sizes[1] / MIB:11.1f}{sizes[2] / MIB:11.1f}{sizes[3] / MIB:13.1f}    "
            f"{median(side.update_s):10.2f}   ({min(side.update_s):.2f} to {max(side.update_s):.2f})"
        )
    grpo, ppo = sides["grpo"], sides["ppo"]
    times = [median(side.update_s) for side in (ppo, grpo)]
    ratios = {
        "ppo_over_grpo_standing_memory": ppo.standing / grpo.standing,
        "ppo_over_grpo_memory": (ppo.standing + ppo.activations) / (grpo.standing + grpo.activations),
        "ppo_over_grpo_update": times[0] / times[1],
        "ppo_over_grpo_step": (generate_s + times[0]) / (generate_s + times[1]),
    }
    print(json.dumps({name: round(value, 3) for name, value in ratios.items()}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, help="of torch on the CPU; torch's own choice when left out")
    parser.add_argument("--repeats", type=int, default=9, help="timed updates a side")
    parser.add_argument("--cpu", action="store_true", help="not on a GPU, even where there is one")
    given = parser.parse_args()
    main(given.repeats, given.threads, "cpu" if given.cpu else "auto")
