"""Steps labelled by rollouts, a process reward model trained on them, and what picking by it is worth: running sums.

    python benchmarks/prm.py [--output FOLDER] [--seed N] [--policy-steps N]
        [--tasks N] [--held-out N] [--rollouts K] [--train-steps N]

Math-Shepherd's way (arXiv 2312.08935) from end to end, some minutes on one core. The policy is a model of 0.4M parameters after
a cold start that leaves it right about every other time. It solves training tasks, once each; from the end of each step it
writes K completions more; the task's own environment grades them. A model is trained on hard labels, or soft ones, from a
deeper model that had the same demonstrations for longer. Then, on held-out tasks: how often a model's verdict on a step is
the label (the floor is the more common label), how often it prefers the right one of two solutions of one task, and how often
the best of n by its least step is right, beside a random pick, a random one of the different texts and the majority, on the
same samples; and the majority with votes weighted by the least step. Intervals are bootstraps over tasks. With --output, labels
and models are kept there, and what is there is not made again. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from process_parts.running_sums import STEPS, RunningSums
from process_parts.solving import TOKENS, Solved, cold_started, correct, different_tasks, opened, share, solve, tell

from verigym.envs.grading import Grader
from verigym.envs.metrics import Cluster, majority_at_k, normalise_answer
from verigym.envs.process.environment import ProcessEnvironment
from verigym.envs.process.steps import split as split_steps
from verigym.envs.schema import Message, Prompt, Score
from verigym.trainer.prm import ProcessRewardModel, train_prm
from verigym.trainer.step_labels import Estimate, StepOutcomes, roll_out

SAMPLES = 8
LABELLED = {"train": 1, "test": 2}
"""Solutions a task whose steps are labelled: other tasks teach more than other solutions of the same one."""
FINE = 840
"""A share of at most 8 equal votes is a whole number of these."""
OPTIONS = {"largest": 9}


def main() -> None:
    arguments = read_arguments()
    torch.set_num_threads(1)
    with TemporaryDirectory() as scratch:
        figures = measure(arguments.output or Path(scratch), arguments)
    print_table(figures)
    print(json.dumps(figures))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="keep policy, labels and models here")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy-steps", type=int, default=320, help="of the policy's cold start")
    parser.add_argument("--base-layers", type=int, default=4, help="of the model that the process reward models begin as")
    parser.add_argument("--base-steps", type=int, default=400, help="of its cold start")
    parser.add_argument("--tasks", type=int, default=1800, help="training tasks, one solution of each is labelled")
    parser.add_argument("--held-out", type=int, default=1000, help="held-out tasks to pick on; steps are labelled on a quarter")
    parser.add_argument("--rollouts", type=int, default=8, help="K, completions a step")
    parser.add_argument("--labels", choices=("hard", "soft"), nargs="+", default=["hard"])
    parser.add_argument("--train-steps", type=int, default=2000, help="batches of 16 solutions")
    return parser.parse_args()


def measure(output: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Label, train, compare."""
    clock = time.process_time()
    output.mkdir(parents=True, exist_ok=True)
    engine, codec = opened(cold_started(output, OPTIONS, arguments.policy_steps, arguments.seed))
    tell("policy", clock)
    environment: Any = RunningSums(**OPTIONS)
    outcomes: dict[str, list[StepOutcomes]] = {}
    solved: dict[str, list[Solved]] = {}
    with Grader(environment, workers=0) as grader:
        for split, count in (("train", arguments.tasks), ("test", arguments.held_out)):
            tasks = different_tasks(environment, split, arguments.seed, count)
            samples = SAMPLES if split == "test" else LABELLED[split]
            solved[split] = solve(engine, codec, grader, tasks, (arguments.seed, split), samples)
            some = solved[split] if split == "train" else solved[split][: (count + 3) // 4]
            wholes = [(prompt, text) for prompt, texts, _ in some for text in dict.fromkeys(texts[: LABELLED[split]])]
            path = output / f"labels-{split}-seed{arguments.seed}.jsonl"
            kept = read_kept(path, wholes)
            if kept is None:
                rolled = {"samples": arguments.rollouts, "max_new_tokens": TOKENS, "how": STEPS, "seed": arguments.seed}
                kept = roll_out(engine, codec, grader, wholes, **rolled)
                keep(path, kept)
            outcomes[split] = kept
            tell(f"{split}: {len(tasks)} tasks, {len(wholes)} solutions labelled", clock)
    figures: dict[str, Any] = {
        "tasks": {split: len(rows) for split, rows in solved.items()},
        "solutions_labelled": {split: len(rows) for split, rows in outcomes.items()},
        "steps_labelled": {split: sum(len(one.spans) for one in rows) for split, rows in outcomes.items()},
        "rollouts": {split: sum(map(sum, (one.scored for one in rows))) for split, rows in outcomes.items()},
        "picks": rules(solved["test"]),
    }
    judged_by_steps = ProcessEnvironment()
    base, codec = opened(cold_started(output, OPTIONS, arguments.base_steps, arguments.seed, arguments.base_layers))
    tell("the model to begin from", clock)
    for how in arguments.labels:
        model = ProcessRewardModel(copy.deepcopy(base.model), copy.deepcopy(codec.tokenizer), seed=arguments.seed)
        usable = [one.labelled(how) for one in outcomes["train"] if one.spans]
        usable = [replace(one, prompt=bare(judged_by_steps, one.prompt)) for one in usable]
        train_prm(model, usable, steps=arguments.train_steps, seed=arguments.seed)
        model.save(output / f"prm-{how}")
        tell(f"model of {how} labels trained", clock)
        judge = ProcessEnvironment(kind="qwen", model=str(output / f"prm-{how}"), split=STEPS, device="cpu", batch_size=64)
        figures[f"steps_{how}"] = step_accuracy(judge, outcomes["test"], how)
        figures["picks"] |= picks(judge, solved["test"], how)
    figures["cpu_s"] = round(time.process_time() - clock)
    return figures


def step_accuracy(judge: ProcessEnvironment, outcomes: Sequence[StepOutcomes], how: Estimate) -> dict[str, Any]:
    """Compare the model's verdicts on steps with their labels, both cut at one half."""
    found = judge.score_batch([(bare(judge, one.prompt), one.text) for one in outcomes])
    clusters: dict[str, list[tuple[bool, bool]]] = {}
    for score, one in zip(found, outcomes, strict=True):
        labels = one.labels(how)
        said = [step.reward for step in score.steps or ()] or [0.0] * len(labels)  # a text that gets no verdict is not liked
        for reward, label in zip(said, labels, strict=True):
            if label is not None:
                clusters.setdefault(one.prompt.key, []).append((reward >= 0.5, label >= 0.5))
    pairs = [pair for rows in clusters.values() for pair in rows]
    good = sum(label for _, label in pairs) / len(pairs)
    more_common = good >= 0.5
    agreed = [Cluster(sum(said == label for said, label in rows), len(rows)) for rows in clusters.values()]
    floor = [Cluster(sum(more_common == label for _, label in rows), len(rows)) for rows in clusters.values()]
    return {"steps": len(pairs), "accuracy": share(agreed), "majority_label": share(floor)}


def rules(solved: Sequence[Solved]) -> dict[str, Any]:
    """How right a random sample, a random one of the different texts, the most frequent answer, and any of the samples are."""
    right = [correct(scores) for _, _, scores in solved]
    majority = [Cluster(round(FINE * majority_of(scores)), FINE) for _, _, scores in solved]
    return {
        "random": share([Cluster(sum(row), len(row)) for row in right]),
        f"maj@{SAMPLES}": share(majority),
        "random_of_different_texts": share([Cluster(round(FINE * different(*row[1:])), FINE) for row in solved]),
        f"pass@{SAMPLES}": share([Cluster(any(row), 1) for row in right]),
    }


def picks(judge: ProcessEnvironment, solved: Sequence[Solved], how: Estimate) -> dict[str, Any]:
    """How right the sample is whose least step the model likes best, and by how much that beats the other rules."""
    pairs = [(bare(judge, prompt), text) for prompt, texts, _ in solved for text in texts]
    rewards = iter([score.reward or 0.0 for score in judge.score_batch(pairs)])
    picked, voted, over_random, over_majority, vote_over_majority, preferred = [], [], [], [], [], []
    for _, texts, scores in solved:
        row = [next(rewards) for _ in texts]
        preferred.append(preference(row, correct(scores)))
        hit = correct(scores)[row.index(max(row))]
        picked.append(Cluster(int(hit), 1))
        over_random.append(Cluster(SAMPLES * hit - sum(correct(scores)), SAMPLES))
        majority = round(FINE * majority_of(scores))
        over_majority.append(Cluster(FINE * hit - majority, FINE))
        won = vote(scores, row)
        voted.append(Cluster(int(won), 1))
        vote_over_majority.append(Cluster(FINE * won - majority, FINE))
    return {
        f"best_of_{SAMPLES}_{how}": share(picked),
        f"{how}_over_random": share(over_random),
        f"{how}_over_majority": share(over_majority),
        f"vote_of_{SAMPLES}_{how}": share(voted),
        f"{how}_vote_over_majority": share(vote_over_majority),
        f"{how}_prefers_the_right_one": share([one for one in preferred if one.n]),
    }


def preference(rewards: Sequence[float], right: Sequence[bool]) -> Cluster:
    """Count in how many pairs of a right and a wrong solution the right one gets more; a draw counts half of it.

    Returns:
        Halves of pairs, so that a draw is a whole number.
    """
    good = [reward for reward, hit in zip(rewards, right, strict=True) if hit]
    bad = [reward for reward, hit in zip(rewards, right, strict=True) if not hit]
    return Cluster(sum((a > b) + (a >= b) for a, b in product(good, bad)), 2 * len(good) * len(bad))


def print_table(figures: dict[str, Any]) -> None:
    """Print a line for each figure that has an interval."""
    rows = dict(figures["picks"])
    for key in ("steps_hard", "steps_soft"):
        rows |= {f"{key}: {name}": value for name, value in figures.get(key, {}).items() if isinstance(value, list)}
    for name, (mean, low, high) in rows.items():
        print(f"{name:34s} {mean:7.3f}  ({low:.3f} to {high:.3f})")


def bare(judge: ProcessEnvironment, prompt: Prompt) -> Prompt:
    """Return a task whose system message is empty: the convention's own would be half of what this small model reads."""
    return judge.prompt((Message(role="system", content=""), *prompt.messages))


def different(texts: Sequence[str], scores: Sequence[Score]) -> float:
    """Return the share of right ones among a task's different texts: the floor of a pick that is blind to frequency."""
    found = dict(zip(texts, correct(scores), strict=True))
    return sum(found.values()) / len(found)


def vote(scores: Sequence[Score], weights: Sequence[float]) -> bool:
    """Return whether the answer with the most weight is right; a vote weighs what the model gives its solution."""
    total: dict[str, float] = {}
    right: dict[str, bool] = {}
    for score, hit, weight in zip(scores, correct(scores), weights, strict=True):
        if score.answer is not None:
            spelling = normalise_answer(score.answer)
            total[spelling] = total.get(spelling, 0.0) + weight
            right[spelling] = right.get(spelling, False) or hit
    return bool(total) and right[max(total, key=total.__getitem__)]


def majority_of(scores: Sequence[Score]) -> float:
    """Return how right the most frequent answer is."""
    return majority_at_k([score.answer for score in scores], correct(scores), len(scores))


def keep(path: Path, outcomes: Sequence[StepOutcomes]) -> None:
    """Write how many of each step's rollouts were right, one line a solution."""
    with path.open("w", encoding="utf-8") as file:
        for one in outcomes:
            steps = [span.of(one.text) for span in one.spans]
            row = {"task": one.prompt.text, "text": one.text, "steps": steps, "right": one.right, "scored": one.scored}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_kept(path: Path, wholes: Sequence[tuple[Prompt, str]]) -> list[StepOutcomes] | None:
    """Return what `keep` wrote, where it is of these solutions."""
    if not path.exists():
        return None
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if [(row["task"], row["text"]) for row in rows] != [(prompt.text, text) for prompt, text in wholes]:
        return None
    return [
        StepOutcomes(prompt, text, tuple(split_steps(text, STEPS)), tuple(row["right"]), tuple(row["scored"]))
        for row, (prompt, text) in zip(rows, wholes, strict=True)
    ]


if __name__ == "__main__":
    main()
