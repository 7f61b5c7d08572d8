"""Three ways to distil a larger model into a smaller one: accuracy, and how far the student is from the teacher.

    python benchmarks/distillation.py [--output DIR] [--recipe FILE] [--prompts N]

Runs `recipes/distillation.yaml`; what is done already in DIR is not done again. Beside the recipe's own held-out accuracy stand
two divergences at each token of held-out completions, means over prompts in nats with 95% intervals: `forward`,
KL(teacher || student) on the teacher's samples, and `reverse`, KL(student || teacher) on the student's own. The last line is
one JSON object.
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

import torch
from process_parts.solving import tell

from verigym.trainer.evaluation.figures import mean_interval
from verigym.trainer.logprobs.forward import ForwardOptions
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.loading import load_model
from verigym.trainer.pipelines.pipeline import run_pipeline
from verigym.trainer.pipelines.plan import read_pipeline
from verigym.trainer.stages.distill import kl_gradient
from verigym.trainer.stages.distill_losses import Direction
from verigym.trainer.stages.examples import Example, Pair
from verigym.trainer.stages.sample_log import PromptSamples, read_samples

RECIPE = Path(__file__).resolve().parents[1] / "recipes/distillation.yaml"
TEACHER = "teacher"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="keep all stages here, and go on with those that are there")
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--prompts", type=int, default=100, help="held-out prompts for the divergences")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.process_time()
    with TemporaryDirectory() as scratch:
        pipeline = replace(read_pipeline(arguments.recipe), output=arguments.output or Path(scratch))
        states = run_pipeline(pipeline, tell=lambda line: tell(line, clock))
        products = {state.stage.name: Path(state.record["product"]) for state in states if state.record}
        (last,) = [state.stage for state in states if state.stage.kind_name == "evaluate"]
        report = products[last.name]
        models = {label: products[str(name).removeprefix("stage:")] for label, name in last.fields["models"].items()}
        figures = measure(report, models, arguments.prompts)
    figures["cpu_s"] = round(time.process_time() - clock)
    for label, row in figures["models"].items():
        print(f"{label:16s}" + "  ".join(f"{what} {shown(value)}" for what, value in row.items()))
    print(json.dumps(figures))


def shown(value: Any) -> str:
    """Return a number, or a mean with its interval."""
    return "{:.3f} ({:.3f} to {:.3f})".format(*value) if isinstance(value, list) else str(value)


def measure(report: Path, models: dict[str, Path], prompts: int) -> dict[str, Any]:
    """Return each model's accuracy, gain over the first and divergences from the teacher."""
    read = json.loads(report.read_text(encoding="utf-8"))
    teacher, tokenizer = load_model(str(models[TEACHER]), torch.device("cpu"))
    codec = Codec(tokenizer, teacher.generation_config)
    samples = {label: read_samples(report.with_name(f"samples-{label}.jsonl")) for label in models}
    every = max(1, len(samples[TEACHER]) // prompts)  # of all sources
    found: dict[str, Any] = {}
    for label, folder in models.items():
        model, _ = load_model(str(folder), torch.device("cpu"))
        accuracy = read["models"][label]["all"]["figures"][f"avg@{read['samples']}"]
        row: dict[str, Any] = {"parameters": sum(one.numel() for one in model.parameters()), "accuracy": interval(accuracy)}
        if label in read["compared"]:
            row[f"over_{read['first']}"] = interval(read["compared"][label]["gain"])
        if label != TEACHER:
            row["forward"] = divergence(model, teacher, codec, samples[TEACHER][::every], "forward")
            row["reverse"] = divergence(model, teacher, codec, samples[label][::every], "reverse")
        found[label] = row
    return {"models": found, "prompts": len(samples[TEACHER])}


def interval(figure: dict[str, Any]) -> list[float]:
    """Return a report's figure as mean, low and high."""
    return [round(figure[name], 3) for name in ("value", "low", "high")]


def divergence(student: Any, teacher: Any, codec: Codec, found: Sequence[PromptSamples], direction: Direction) -> list[float]:
    """Return the mean over prompts of the mean divergence at each token of their samples, with its interval."""
    how = ForwardOptions(pad_id=codec.pad_id)
    means = []
    with torch.no_grad():
        for one in found:
            asked = codec.encode(Example(one.messages, "").prompt)
            ends = [(sample.text, () if sample.finish_reason == "length" else (min(codec.eos_ids),)) for sample in one.samples]
            pairs = [Pair(asked, (*codec.encode_text(text), *end)) for text, end in ends]
            means.append(kl_gradient(student, teacher, pairs, how, direction=direction, backward=False))
    mean, ends_of = mean_interval(means, key=f"divergence/{direction}")
    return [round(value, 4) for value in (mean, *(ends_of or (mean, mean)))]


if __name__ == "__main__":
    main()
