"""Math-Shepherd's way from end to end (arXiv 2312.08935): labels by roll-outs, a process reward model, and picking by it.

    python benchmarks/prm.py [--output DIR] [--recipe FILE] [--seeds 0,1,2]

Runs `recipes/prm.yaml` once with each seed: DIR/seedN.yaml is the recipe with that seed, which `verigym pipeline run` runs as
well. What is done in DIR is not done again. Beside the recipe's own figures (how often a verdict on a held-out step is its
label, beside the more common label; the pick, the majority and the weighted votes of n samples) stand their differences on the
same samples, how often the right one of two solutions of one task gets more, and what a random one of a task's *different*
texts gets, which is the floor of a pick that is blind to frequency. Intervals are 95% bootstraps, over tasks for one seed, over
seeds and their tasks for the mean of several; Student's t over the seeds is the cautious one. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml
from process_parts.solving import tell
from rl_or_ei_parts.figures import nested_interval, ratio, t_interval

from verigym.envs.trained_options import RECORD
from verigym.trainer.evaluation.figures import ScoredSamples, avg, best_of, majority, pass_at, weighted_majority
from verigym.trainer.evaluation.run import picked_rewards
from verigym.trainer.pipelines.pipeline import State, run_pipeline
from verigym.trainer.pipelines.plan import read_pipeline
from verigym.trainer.stages.sample_log import PromptSamples, read_samples

RECIPE = Path(__file__).resolve().parents[1] / "recipes/prm.yaml"
Counts = Mapping[str, Sequence[tuple[float, float]]]
"""By a figure's name: what is right, and of how many, task by task."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="keep all stages here, and go on with those that are there")
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--seeds", type=_numbers, default=[0], help="such as 0,1,2")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.process_time()
    by_seed: dict[int, dict[str, Any]] = {}
    counted: list[Counts] = []
    with TemporaryDirectory() as scratch:
        for seed in arguments.seeds:
            pipeline = read_pipeline(seeded(arguments.recipe, seed, arguments.output or Path(scratch)))
            states = run_pipeline(pipeline, tell=lambda line: tell(line, clock))
            by_seed[seed] = stage_figures(states)
            counted.append(picks(*samples_and_picks(states)))
            by_seed[seed]["picks"] = table(counted[-1:])
            show(f"seed {seed}", {**by_seed[seed]["steps"], **by_seed[seed]["picks"]})
    several = table(counted)
    if len(counted) > 1:
        show(f"mean of {len(counted)} seeds", several)
    figures = {"by_seed": by_seed, "picks": several, "picks_by_t": by_t(counted), "cpu_s": round(time.process_time() - clock)}
    print(json.dumps(figures))


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def seeded(recipe: Path, seed: int, folder: Path) -> Path:
    """Write the recipe with this seed and a folder of its own, and return the file."""
    path = folder / f"seed{seed}.yaml"
    fields = yaml.safe_load(recipe.read_text(encoding="utf-8")) | {"seed": seed, "output": str(folder / f"seed{seed}")}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
    return path


def stage_figures(states: Sequence[State]) -> dict[str, Any]:
    """Return what a finished recipe's stages say of their labels and of the process reward model."""
    found: dict[str, Any] = {"steps": {}, "labels": {}}
    for state in states:
        assert state.record is not None
        kind, made = state.stage.kind_name, Path(state.record["product"])
        if kind == "step-labels":
            found["labels"][state.stage.name] = state.record["figures"]
        elif kind == "prm":
            held_out = json.loads((made / RECORD).read_text(encoding="utf-8"))["training"]["held_out"]
            found["steps"]["step verdicts that agree with the label"] = held_out["accuracy"]
            found["steps"]["always the more common label"] = held_out["majority/accuracy"]
    return found


def samples_and_picks(states: Sequence[State]) -> tuple[list[PromptSamples], list[list[float | None]]]:
    """Return the samples of a recipe's one evaluation of one model, and what its one picker says of each."""
    (folder,) = [Path(s.record["product"]).parent for s in states if s.record and s.stage.kind_name == "evaluate"]
    (samples,) = folder.glob("samples-*.jsonl")
    (picked,) = folder.glob("picks-*.json")
    return read_samples(samples), picked_rewards(picked)


def picks(found: Sequence[PromptSamples], rewards: Sequence[Sequence[float | None]]) -> Counts:
    """Compare picking by rewards with the other rules, on the same samples. A sample that gets no verdict is not liked."""
    rows = [scored(one, weights) for one, weights in zip(found, rewards, strict=True)]
    rows = [row for row in rows if row[0].n]
    n = max(answers.n for answers, _, _ in rows)
    rules = {
        f"random pick (avg@{n})": [avg(answers) for answers, _, _ in rows],
        "random one of the different texts": [different(texts, answers.correct) for answers, _, texts in rows],
        f"best of {n} by the least step": [best_of(answers, weights, answers.n) for answers, weights, _ in rows],
        f"maj@{n}": [majority(answers, answers.n) for answers, _, _ in rows],
        f"majority of {n}, votes weighted": [weighted_majority(answers, weights, answers.n) for answers, weights, _ in rows],
        f"pass@{n}": [pass_at(answers, answers.n) for answers, _, _ in rows],
    }
    random, _, best, most, weighted, _ = rules.values()
    rules |= {
        "best, less a random pick": less(best, random),
        "best, less the majority": less(best, most),
        "weighted votes, less the majority": less(weighted, most),
    }
    preferred = [preference(weights, answers.correct) for answers, weights, _ in rows]
    return {
        **{name: [(value, 1) for value in values] for name, values in rules.items()},
        "of a right and a wrong one, prefers right": [one for one in preferred if one[1]],
    }


def table(seeds: Sequence[Counts]) -> dict[str, list[float] | None]:
    """Return each figure's mean over seeds, and both ends of its interval over seeds and their tasks.

    None stands for a figure of which some seed has nothing to count: no prompt with a right and a wrong solution, say.
    """
    found: dict[str, list[float] | None] = dict.fromkeys(seeds[0])
    for name in counted_names(seeds):
        tasks = [counts[name] for counts in seeds]
        mean = fmean(map(ratio, tasks))
        found[name] = [round(value, 3) for value in (mean, *nested_interval(tasks, key=name))]
    return found


def by_t(seeds: Sequence[Counts]) -> dict[str, list[float]]:
    """Return the ends of Student's t interval over seeds by figure; nothing with one seed."""
    found = {name: t_interval([ratio(counts[name]) for counts in seeds]) for name in counted_names(seeds)}
    return {name: [round(end, 3) for end in interval] for name, interval in found.items() if interval}


def counted_names(seeds: Sequence[Counts]) -> list[str]:
    """Return the names of the figures of which each seed has something to count."""
    return [name for name in seeds[0] if all(sum(of for _, of in counts[name]) for counts in seeds)]


def show(title: str, figures: Mapping[str, Sequence[float | None] | None]) -> None:
    """Print figures with their intervals."""
    print(title)
    for name, figure in figures.items():
        if figure is None:
            print(f"  {name:42s} nothing to count")
            continue
        mean, low, high = figure
        print(f"  {name:42s} {mean:7.3f}" + ("" if low is None else f"  ({low:.3f} to {high:.3f})"))


def scored(one: PromptSamples, weights: Sequence[float | None]) -> tuple[ScoredSamples, list[float], list[str]]:
    """Return a prompt's samples that have a verdict, what the picker says of them, and their texts."""
    kept = [(s, weight or 0.0) for s, weight in zip(one.samples, weights, strict=True) if s.score.scored]
    samples = [sample for sample, _ in kept]
    correct, answers = tuple(s.correct for s in samples), tuple(s.score.answer for s in samples)
    return ScoredSamples(correct, answers, tuple(s.tokens for s in samples)), [w for _, w in kept], [s.text for s in samples]


def less(these: Sequence[float], those: Sequence[float]) -> list[float]:
    """Return differences, task by task."""
    return [a - b for a, b in zip(these, those, strict=True)]


def different(texts: Sequence[str], correct: Sequence[bool]) -> float:
    """Return the share of right ones among a task's different texts."""
    found = dict(zip(texts, correct, strict=True))
    return sum(found.values()) / len(found)


def preference(rewards: Sequence[float], right: Sequence[bool]) -> tuple[int, int]:
    """Count in how many pairs of a right and a wrong solution the right one gets more; a draw counts half of it.

    Returns:
        Halves of pairs that are ordered right, and halves of pairs.
    """
    good = [reward for reward, hit in zip(rewards, right, strict=True) if hit]
    bad = [reward for reward, hit in zip(rewards, right, strict=True) if not hit]
    return sum((a > b) + (a >= b) for a, b in product(good, bad)), 2 * len(good) * len(bad)


if __name__ == "__main__":
    main()
