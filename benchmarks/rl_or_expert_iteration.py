"""Reinforcement learning against expert iteration on equal numbers of sampled tokens, and against both in turn.

    python benchmarks/rl_or_expert_iteration.py --output DIR [--seeds 0,1,2] [--mixtures NAME ...] [--arms NAME ...]
        [--steps N] [--cold-steps N] [--held-out N] [--figure FILE]

Expert iteration samples, keeps the right completions and fine-tunes on them, four times. Every arm of a seed begins at the same
cold start and is asked the same held-out questions; GRPO runs first, and what it samples is the budget of the others. Each seed
is a pipeline, DIR/MIXTURE-seedN.yaml, written stage by stage, which `verigym pipeline run` runs as well. What is done in
DIR is not done again, so a stopped study goes on with the same command. It takes half an hour of CPU, so nothing is run without
--output. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rl_or_ei_parts.arms import Judged, Outcome, SeedStudy
from rl_or_ei_parts.figures import crossed_interval, t_interval
from rl_or_ei_parts.settings import ARMS, MIXTURES, Sizes

MAIN = ("grpo", "expert-iteration", "both")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="folder of the pipelines")
    parser.add_argument("--seeds", type=_numbers, default=[0, 1, 2], help="such as 0,1,2")
    parser.add_argument("--mixtures", nargs="+", choices=MIXTURES, default=list(MIXTURES))
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(MAIN), help="grpo always runs: it sets the budget")
    parser.add_argument("--steps", type=int, default=Sizes.steps, help="of GRPO")
    parser.add_argument("--cold-steps", type=int, help="of the cold start; chosen by mixture when left out")
    parser.add_argument("--held-out", type=int, default=Sizes.held_out, help="most held-out questions a source")
    parser.add_argument("--points", type=int, default=Sizes.points, help="places of the budget at which GRPO is evaluated")
    parser.add_argument("--figure", type=Path, help="write the curves here, PNG or SVG by the suffix")
    arguments = parser.parse_args()
    if arguments.output is None:
        print("nothing is run without --output; the study takes half an hour of CPU")
        return
    sizes = replace(Sizes(), steps=arguments.steps, held_out=arguments.held_out, points=arguments.points)
    if arguments.cold_steps:
        sizes = replace(sizes, cold_steps=dict.fromkeys(MIXTURES, arguments.cold_steps))
    arms = ["grpo", *(name for name in arguments.arms if name != "grpo")]
    outcomes: dict[str, dict[str, list[Outcome]]] = {}
    for seed in arguments.seeds:
        for mixture in arguments.mixtures:
            study = SeedStudy(arguments.output, mixture, seed, sizes)
            for name in arms:
                outcome = study.run(name, ARMS[name])
                outcomes.setdefault(mixture, {}).setdefault(name, []).append(outcome)
                _tell(mixture, seed, name, outcome)
            study.work.finish()
    found = {mixture: {name: figures(runs, of["grpo"]) for name, runs in of.items()} for mixture, of in outcomes.items()}
    for mixture, rows in found.items():
        print(table(mixture, outcomes[mixture]["grpo"], rows))
    text = json.dumps({"seeds": arguments.seeds, "sizes": asdict(sizes), "mixtures": found})
    (arguments.output / "results.json").write_text(text + "\n", encoding="utf-8")
    if arguments.figure:
        draw(outcomes, arguments.figure)
    print(text)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _tell(mixture: str, seed: int, name: str, outcome: Outcome) -> None:
    curve = "  ".join(f"{one.spent.tokens:,}: {mean(one.right):.3f}" for one in outcome.curve)
    last = outcome.curve[-1].spent
    print(
        f"{mixture}, seed {seed}, {name}: {curve}; greedy {mean(outcome.greedy):.3f}; "
        f"{last.tokens / outcome.budget:.3f} of the budget, {last.updates} updates, {last.cpu_s:.0f} CPU s",
        file=sys.stderr,
        flush=True,
    )


def mean(figures_by_question: Mapping[Any, float]) -> float:
    """Return the mean over questions."""
    return fmean(figures_by_question.values())


def matrix(by_seed: Sequence[Mapping[Any, float]]) -> list[list[float]]:
    """Return (seeds, questions), with the questions in one order."""
    questions = sorted(by_seed[0])
    return [[row[question] for question in questions] for row in by_seed]


def figures(runs: Sequence[Outcome], base: Sequence[Outcome]) -> dict[str, Any]:
    """Return an arm's figures with their intervals, and its difference to the base arm, seed by seed."""
    ends, base_ends = [run.curve[-1] for run in runs], [run.curve[-1] for run in base]
    right, base_right = matrix([end.right for end in ends]), matrix([end.right for end in base_ends])
    gains = [[a - b for a, b in zip(mine, other, strict=True)] for mine, other in zip(right, base_right, strict=True)]
    by_seed = [fmean(row) for row in gains]
    sources = sorted({source for source, _ in ends[0].right})
    return {
        "accuracy": fmean(map(fmean, right)),
        "accuracy_by_seed": [fmean(row) for row in right],
        "accuracy_interval": crossed_interval(right, key="accuracy"),
        "by_source": {
            source: fmean(fmean(v for (of, _), v in end.right.items() if of == source) for end in ends) for source in sources
        },
        "any_right": fmean(mean(end.any_right) for end in ends),
        "any_right_interval": crossed_interval(matrix([end.any_right for end in ends]), key="any"),
        "greedy": fmean(mean(run.greedy) for run in runs),
        "greedy_interval": crossed_interval(matrix([run.greedy for run in runs]), key="greedy"),
        "less_grpo": fmean(by_seed),
        "less_grpo_by_seed": by_seed,
        "less_grpo_t_interval": t_interval(by_seed),
        "less_grpo_interval": crossed_interval(gains, key="accuracy"),
        "of_budget": fmean(run.curve[-1].spent.tokens / run.budget for run in runs),
        "spent": {name: fmean(asdict(end.spent)[name] for end in ends) for name in asdict(ends[0].spent)},
        "curve": [_place([run.curve[number] for run in runs]) for number in range(len(runs[0].curve))],
    }


def _place(points: Sequence[Judged]) -> dict[str, Any]:
    low, high = crossed_interval(matrix([point.right for point in points]), key="accuracy")
    tokens = fmean(point.spent.tokens for point in points)
    return {"tokens": tokens, "accuracy": fmean(mean(point.right) for point in points), "low": low, "high": high}


def table(mixture: str, runs: Sequence[Outcome], rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the mixture's figures as a table in Markdown."""
    cold = [run.curve[0] for run in runs]
    low, high = crossed_interval(matrix([point.right for point in cold]), key="accuracy")
    head = ["arm", "tokens sampled", "accuracy", "by seed", "less grpo (t over seeds)", "any of the samples right", "greedy"]
    head += ["updates", "tokens learned", "CPU s"]
    title = f"{mixture}: {len(cold[0].right)} held-out questions, {len(runs)} seeds"
    lines = [title, "", _row(head), _row(["---"] * len(head))]
    start = f"{fmean(mean(point.right) for point in cold):.3f} [{low:.3f}, {high:.3f}]"
    any_right = f"{fmean(mean(point.any_right) for point in cold):.3f}"
    greedy = f"{fmean(mean(run.cold_greedy) for run in runs):.3f}"
    by_seed = _several([mean(point.right) for point in cold])
    lines.append(_row(["cold start", "0", start, by_seed, "", any_right, greedy, "", "", ""]))
    for name, row in rows.items():
        spent, t = row["spent"], row["less_grpo_t_interval"]
        gain = "" if name == "grpo" else f"{row['less_grpo']:+.3f}" + (f" ({t.low:+.3f} to {t.high:+.3f})" if t else "")
        lines.append(
            _row(
                [
                    name,
                    f"{spent['tokens']:,.0f}",
                    f"{row['accuracy']:.3f} [{row['accuracy_interval'].low:.3f}, {row['accuracy_interval'].high:.3f}]",
                    _several(row["accuracy_by_seed"]),
                    gain,
                    f"{row['any_right']:.3f}",
                    f"{row['greedy']:.3f}",
                    f"{spent['updates']:,.0f}",
                    f"{spent['learned_tokens']:,.0f}",
                    f"{spent['cpu_s']:.0f}",
                ]
            )
        )
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _several(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def draw(outcomes: Mapping[str, Mapping[str, Sequence[Outcome]]], path: Path) -> None:
    """Draw held-out accuracy against sampled tokens, a panel a mixture, and write it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(outcomes), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, (mixture, arms) in zip(figure.subplots(1, len(outcomes), squeeze=False)[0], outcomes.items(), strict=True):
        for name, runs in arms.items():
            places = [_place([run.curve[number] for run in runs]) for number in range(len(runs[0].curve))]
            tokens = [place["tokens"] / 1000 for place in places]
            (line,) = axis.plot(tokens, [place["accuracy"] for place in places], marker="o", markersize=3, label=name)
            low, high = [place["low"] for place in places], [place["high"] for place in places]
            axis.fill_between(tokens, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axis.set_title(f"{mixture}, {len(next(iter(arms.values())))} seeds")
        axis.set_xlabel("sampled tokens, thousands")
        axis.set_ylabel("held-out accuracy, temperature 1")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
