"""A reward model beside baselines and a logistic regression by hand, and what reinforcement learning on it is worth.

    python benchmarks/reward_model.py [--output DIR] [--recipe FILE]

Runs `recipes/reward_model.yaml`; what is done already in DIR is not done again. Of held-out pairs: how often the preferred
answer gets more from the trained model, from a model whose head alone was trained, and from a logistic regression written here
(Newton's method on differences of the same frozen features, in float64), which must agree with the second; beside them the
longer answer and the majority. Then, on held-out tasks before and after GRPO on the learnt model and on the verifier: how many
answers are right, and what the learnt model thinks of them. If it rises where the truth does not, it is hacked. Intervals are
95%, bootstraps over prompts. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from process_parts.solving import tell

from verigym.envs.trained_options import RECORD
from verigym.trainer.checkpoints.input_hashes import model_digest
from verigym.trainer.evaluation.figures import mean_interval
from verigym.trainer.evaluation.run import picked_rewards
from verigym.trainer.pipelines.pipeline import State, run_pipeline
from verigym.trainer.pipelines.plan import Pipeline, read_pipeline
from verigym.trainer.reward_models.figures import preferred, share
from verigym.trainer.reward_models.pair_model import PairTokens, RewardModelRun, outputs, tokenized
from verigym.trainer.reward_models.training import digest, gather
from verigym.trainer.stages.sample_log import PromptSamples, read_samples

RECIPE = Path(__file__).resolve().parents[1] / "recipes/reward_model.yaml"
RIDGE = 1e-4
"""Of the logistic regression, so that Newton's steps stay finite where features hardly vary."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="keep all stages here, and go on with those that are there")
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.process_time()
    with TemporaryDirectory() as scratch:
        pipeline = replace(read_pipeline(arguments.recipe), output=arguments.output or Path(scratch))
        states = run_pipeline(pipeline, tell=lambda line: tell(line, clock))
        figures = {"pairs": of_pairs(pipeline, states), "policies": of_policies(states)}
    figures["cpu_s"] = round(time.process_time() - clock)
    for name, (mean, low, high) in figures["pairs"].items():
        print(f"{name:40s} {mean:7.3f}" + ("" if low is None else f"  ({low:.3f} to {high:.3f})"))
    for name, row in figures["policies"].items():
        print(
            f"{name:16s}" + "  ".join(f"{what} {mean:.3f} ({low:.3f} to {high:.3f})" for what, (mean, low, high) in row.items())
        )
    print(json.dumps(figures))


def of_pairs(pipeline: Pipeline, states: Sequence[State]) -> dict[str, Any]:
    """Return the held-out accuracy of each reward model, of the rules, and of the logistic regression."""
    found: dict[str, Any] = {}
    products = {state.stage.name: Path(state.record["product"]) for state in states if state.record}
    for state in states:
        if state.stage.kind_name != "reward-model":
            continue
        held_out = json.loads((products[state.stage.name] / RECORD).read_text(encoding="utf-8"))["training"]["held_out"]
        trained = str(state.stage.fields.get("trained", "all"))
        found[f"trained: {trained}"] = held_out["accuracy"]
        rules = {f"rule: {name}": held_out[f"{name}/accuracy"] for name in ("longer", "shorter", "majority")}
        found |= rules
        if trained == "head":
            folder = products[state.stage.name].parent
            config: Any = pipeline.config(state.stage, folder, products)
            found["logistic regression by hand"], found["head, agrees with it on"] = regression(config)
    return found


def regression(config: Any) -> tuple[list[float | None], list[float | None]]:
    """Fit a logistic regression to the features that a `trained: head` stage had, and look at the same held-out pairs.

    Returns:
        Its accuracy, and the share of held-out pairs of which both prefer the same answer.
    """
    run = RewardModelRun(config, *run_identity(config))
    train, held = (tokenized(config, run, pairs)[0] for pairs in gather(config))
    differences, looked = (features(run, rows) for rows in (train, held))
    weight = newton(differences)
    keys = [row.row.key for row in held]
    ours = looked @ weight
    head = run.model.score.weight.detach().double().numpy()[0]
    theirs = looked @ head
    accuracy = share([preferred(float(value), 0.0) for value in ours], keys)
    agreement = share([2 * int((a > 0) == (b > 0)) for a, b in zip(ours, theirs, strict=True)], keys)
    return accuracy.as_json(), agreement.as_json()


def run_identity(config: Any) -> tuple[dict[str, str], str]:
    """Return what a finished stage's checkpoint was made with, so that it is opened as it stands."""
    return {"pairs": digest(gather(config)[0]), "model": model_digest(config.model)}, "reward model"


@torch.no_grad()
def features(run: RewardModelRun, pairs: Sequence[PairTokens]) -> np.ndarray[Any, Any]:
    """Return the difference of what the head gets to see of both answers, a row a pair, in float64."""
    seen: list[torch.Tensor] = []
    hook = run.model.score.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    rows = []
    try:
        run.model.eval()
        for low in range(0, len(pairs), 64):
            some = pairs[low : low + 64]
            ends = []
            for texts in ([pair.chosen for pair in some], [pair.rejected for pair in some]):
                seen.clear()
                outputs(run, texts)
                last = torch.tensor([len(text) - 1 for text in texts])
                ends.append(seen[0][torch.arange(len(texts)), last].double().numpy())
            rows.append(ends[0] - ends[1])
    finally:
        hook.remove()
    return np.concatenate(rows)


def newton(differences: np.ndarray[Any, Any], rounds: int = 50) -> np.ndarray[Any, Any]:
    """Return w that minimises `mean log(1 + exp(-w x)) + ridge |w|^2 / 2` over differences x."""
    weight = np.zeros(differences.shape[1])
    for _ in range(rounds):
        p = 1 / (1 + np.exp(-np.clip(differences @ weight, -500, 500)))
        gradient = -differences.T @ (1 - p) / len(p) + RIDGE * weight
        hessian = (differences.T * (p * (1 - p))) @ differences / len(p) + RIDGE * np.eye(len(weight))
        step = np.linalg.solve(hessian, gradient)
        weight -= step
        if np.abs(step).max() < 1e-9:
            break
    return weight


def of_policies(states: Sequence[State]) -> dict[str, dict[str, list[float]]]:
    """Return of each evaluated model how many answers are right and what the learnt model says of them, prompt by prompt."""
    (last,) = [state for state in states if state.stage.kind_name == "evaluate" and state.record]
    assert last.record is not None
    folder = Path(last.record["product"]).parent
    found = {}
    for label in last.stage.fields["models"]:
        rows = read_samples(folder / f"samples-{label}.jsonl")
        (path,) = folder.glob(f"picks-*-{label}.json")
        rewards = picked_rewards(path)
        liked = [[reward for reward in row if reward is not None] for row in rewards]
        found[label] = {
            "right": interval([right(one) for one in rows], "right"),
            "learnt reward": interval([sum(row) / len(row) for row in liked if row], "reward"),
            "tokens": interval([sum(s.tokens for s in one.samples) / len(one.samples) for one in rows], "tokens"),
        }
    return found


def right(one: PromptSamples) -> float:
    scored = [sample for sample in one.samples if sample.score.scored]
    return sum(sample.correct for sample in scored) / max(1, len(scored))


def interval(values: Sequence[float], key: str) -> list[float]:
    mean, ends = mean_interval(values, key=key)
    return [round(value, 3) for value in (mean, *(ends or (mean, mean)))]


if __name__ == "__main__":
    main()
