"""Process against outcome supervision where a right answer can stand on wrong steps: is a long sum even?

    python benchmarks/process_supervision.py [--output FOLDER] [--seeds N ...] [--steps N] [--arms NAME ...]
        [--policy-steps N] [--held-out N] [--learning-rate X]

The task asks for the remainder of a sum by 2, and the solution adds one number at a time: a wrong total has the right remainder
about every other time. From one cold start, GRPO is run once for each way to reward, on the same tasks with as many samples:

    outcome   1 where the answer is right
    gated     1 where the answer is right and every step that states arithmetic holds (the `process` environment as a gate)
    steps     a reward a step, from `process`, and the answer's at the last (DeepSeekMath's process supervision)

Each model then solves held-out tasks, 4 samples each at temperature 1. `wrong_reason` is the share of right answers whose steps
hold an error or state nothing, `not_derived` the share of right answers whose steps are not the whole derivation, number by
number, `fully_right` the share of all samples with the right answer and the whole derivation. Intervals are bootstraps over the
tasks of all seeds. The last line is one JSON object.

    python benchmarks/process_supervision.py --read FOLDER

prints the same table of what `process_parts/supervision.yaml` has made: outcome, process, and both in one mixture, by YAML.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from process_parts.running_sums import STEPS, RunningSums, derived
from process_parts.solving import TOKENS, Solved, cold_started, correct, different_tasks, opened, share, solve, tell

from verigym.envs.composition.operators import Gate
from verigym.envs.contract.schema import Completion, Prompt, Score, Status, StepScore
from verigym.envs.grading import Grader
from verigym.envs.metrics import Cluster
from verigym.envs.process.environment import ProcessEnvironment
from verigym.trainer.config.run import build_config
from verigym.trainer.loop import train
from verigym.trainer.monitoring.logs import read_rows
from verigym.trainer.stages.sample_log import read_samples

OPTIONS = {"largest": 9, "modulus": 2}
SAMPLES = 4
PROMPTS, GROUP = 16, 8


class Stepwise(RunningSums):
    """The task with the verdicts of its steps; the answer's is the last of them."""

    name = "stepwise"
    scores_steps = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.process = ProcessEnvironment(split=STEPS)

    def stream(self) -> str:
        """Return the name that draws the same tasks as without steps."""
        return RunningSums.name

    def judge(self, prompt: Prompt, reference: Any, completion: Completion) -> Score:
        """Judge the answer, and beside it the steps."""
        score = super().judge(prompt, reference, completion)
        judged = self.process.score(self.process.prompt(prompt.messages), completion).steps or ()
        start, end = judged[-1].end if judged else 0, len(completion.text)
        answer = (StepScore(start=start, end=end, reward=score.reward or 0.0, reason="the answer"),) if start < end else ()
        return score.model_copy(update={"steps": (*judged, *answer)})


def arm(name: str) -> Any:
    """Return the environment whose reward an arm trains on."""
    if name == "steps":
        return Stepwise(**OPTIONS)
    answers: Any = RunningSums(**OPTIONS)
    steps: Any = ProcessEnvironment(split=STEPS)
    return Gate({"steps": steps}, {"answer": answers}) if name == "gated" else answers


ARMS = ("outcome", "gated", "steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="keep the models here, and go on with those that are there")
    parser.add_argument(
        "--read", type=Path, help="train nothing: show what the pipeline process_parts/supervision.yaml made here"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--steps", type=int, default=120, help=f"of GRPO, {PROMPTS} prompts x {GROUP} samples each")
    parser.add_argument("--learning-rate", type=float, default=4e-4)
    parser.add_argument("--policy-steps", type=int, default=320, help="of the cold start")
    parser.add_argument("--held-out", type=int, default=200, help="held-out tasks")
    arguments = parser.parse_args()
    if arguments.read:
        show({name: figures(rows) for name, rows in made_by_pipeline(arguments.read).items()}, {})
        return
    torch.set_num_threads(1)
    clock = time.process_time()
    with TemporaryDirectory() as scratch:
        output = arguments.output or Path(scratch)
        output.mkdir(parents=True, exist_ok=True)
        solved: dict[str, list[Solved]] = {}
        tokens: dict[str, float] = {}
        for seed in arguments.seeds:
            policy = cold_started(output, OPTIONS, arguments.policy_steps, seed)
            solved.setdefault("cold start", []).extend(held_out(policy, arguments.held_out))
            tell(f"seed {seed}: cold start", clock)
            for name in arguments.arms:
                folder = output / f"{name}-seed{seed}"
                final = train(settings(policy, folder, seed, name, arguments), environments={"sums": arm(name)})
                rows = [row for row in read_rows(folder / "metrics.jsonl") if row["kind"] == "train"]
                tokens[name] = tokens.get(name, 0.0) + sum(row["completion_tokens"] for row in rows) * PROMPTS * GROUP
                solved.setdefault(name, []).extend(held_out(final, arguments.held_out))
                tell(f"seed {seed}: {name}", clock)
    counts = {name: round(count) for name, count in tokens.items()}
    found = {name: figures(rows) for name, rows in solved.items()}
    show(found, {"sampled_tokens": counts, "cpu_s": round(time.process_time() - clock)})


def show(found: dict[str, Any], more: dict[str, Any]) -> None:
    """Print the table, and all of it as JSON."""
    for name, row in found.items():
        print(f"{name:12s}" + "  ".join(f"{what} {mean:.3f} ({low:.3f}-{high:.3f})" for what, (mean, low, high) in row.items()))
    print(json.dumps(found | more))


def made_by_pipeline(folder: Path) -> dict[str, list[Solved]]:
    """Return the held-out samples of each arm, of all seeds whose evaluation is finished."""
    solved: dict[str, list[Solved]] = {}
    for report in sorted(folder.glob("held-out-*/report.json")):
        for path in sorted(report.parent.glob("samples-*.jsonl")):
            for one in read_samples(path):
                prompt = Prompt(messages=one.messages, environment="", references={})
                row = (prompt, [sample.text for sample in one.samples], [sample.score for sample in one.samples])
                solved.setdefault(path.stem.removeprefix("samples-"), []).append(row)
    if not solved:
        raise SystemExit(f"{folder} has no finished evaluation; run process_parts/supervision.yaml first")
    return solved


def settings(policy: Path, output: Path, seed: int, name: str, arguments: argparse.Namespace) -> Any:
    """Return an arm's run; arms differ in the environment and in who gets the reward, a completion or each step."""
    fields = {
        "model": str(policy),
        "output": str(output),
        "seed": seed,
        "sources": [{"environment": "sums"}],
        "steps": arguments.steps,
        "prompts_per_step": PROMPTS,
        "group_size": GROUP,
        "max_new_tokens": TOKENS,
        "learning_rate": arguments.learning_rate,
        "schedule": "linear",
        "step_rewards": name == "steps",
        "eval_every": 0,
        "eval_prompts": 1,
        "device": "cpu",
        "threads": 1,
        "workers": 0,
        "loggers": [],
        "checkpoint_every": arguments.steps,
    }
    return build_config(fields, name)


def held_out(model: Path, tasks: int) -> list[Solved]:
    """Return a model's samples of the held-out tasks, with the verdict on the answer."""
    engine, codec = opened(model)
    environment: Any = RunningSums(**OPTIONS)
    with Grader(environment, workers=0) as grader:
        return solve(engine, codec, grader, different_tasks(environment, "test", 0, tasks), ("held out",), SAMPLES)


def figures(solved: Sequence[Solved]) -> dict[str, Any]:
    """Return the shares of the table, each with its interval."""
    process = ProcessEnvironment(split=STEPS)
    right, wrong_reason, not_derived, fully = [], [], [], []
    for prompt, texts, scores in solved:
        bare = process.prompt(prompt.messages)
        good = [text for text, hit in zip(texts, correct(scores), strict=True) if hit]
        unsound = sum(process.score(bare, text).status is not Status.CORRECT for text in good)
        whole = sum(derived(prompt, text) for text in good)
        right.append(Cluster(len(good), len(texts)))
        wrong_reason.append(Cluster(unsound, len(good)))
        not_derived.append(Cluster(len(good) - whole, len(good)))
        fully.append(Cluster(whole, len(texts)))
    return {
        "right": share(right),
        "wrong_reason": share([one for one in wrong_reason if one.n]),
        "not_derived": share([one for one in not_derived if one.n]),
        "fully_right": share(fully),
    }


if __name__ == "__main__":
    main()
