"""inspect_ai evaluates our tasks with its mock model: GSM8K rows where a folder is given, else generated ones."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import inspect_ai
from adapter_environments import Half
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from verigym.adapters import inspect_ai as ours
from verigym.adapters import open_held_out


def model(texts: list[str]) -> Any:
    outputs = [ModelOutput.from_content("mockllm/model", text) for text in texts]
    for one in outputs:  # else the mock model counts with a tokenizer that it fetches
        one.usage = ModelUsage()
    return get_model("mockllm/model", custom_outputs=outputs)


def run(task: Any, texts: list[str]) -> Any:
    (log,) = inspect_ai.eval(task, model=model(texts), max_samples=1, display="none", log_dir="logs", log_format="json")
    assert log.status == "success", log.error
    return log


def scores(log: Any) -> list[float | None]:
    found = [next(iter(one.scores.values())).value for one in log.samples]
    return [None if math.isnan(one) else one for one in found]


def data_set(folder: str) -> dict[str, Any]:
    if folder:
        sources, given = open_held_out("gsm8k", count=24, data_dir=folder), {"data_dir": folder}
        task = ours.task("gsm8k", count=24, workers=1, **given)
    else:
        sources = open_held_out("story", count=24)
        task = ours.task("story", count=24, workers=1)
    texts = []
    for number, row in enumerate(sources.held_out()):
        label, prompt = sources.task(row["verigym"])
        texts.append([sources.environments[label].gold(prompt), r"It is \boxed{-1}.", ""][number % 3] or "")
    log = run(task, texts)
    expected = []
    for one in log.samples:
        label, prompt = sources.task(one.metadata["verigym"])
        expected.append(sources.environments[label].score(prompt, one.output.completion).reward)
    mean = log.results.scores[0].metrics["mean"].value
    return {"rows": len(texts), "scores": scores(log), "env.score": expected, "mean": mean}


def own_data_set() -> dict[str, Any]:
    samples = [Sample(input="What is 2+2?", target="4"), Sample(input="What is 3+3?", target="6")]
    scorer = ours.scorer("math", columns={"answer": "target"}, workers=0)
    log = run(inspect_ai.Task(dataset=MemoryDataset(samples), scorer=scorer), [r"\boxed{4}", r"\boxed{5}"])
    return {"scores": scores(log)}


def no_reward() -> dict[str, Any]:
    env = Half()
    texts = [str(number) for number in range(8)]
    expected = [env.score(env.prompt_at("test", 0, 0), text) for text in texts]
    samples = [Sample(input=f"Task {number}") for number in range(len(texts))]
    scorer = ours.scorer(env, workers=0, retries=0)
    log = run(inspect_ai.Task(dataset=MemoryDataset(samples), scorer=scorer), texts)
    place = [one.reward for one in expected].index(None)
    one = next(iter(log.samples[place].scores.values()))
    result, rewards = log.results.scores[0], [one.reward for one in expected if one.reward is not None]
    return {
        "scores": scores(log),
        "env.score": [one.reward for one in expected],
        "mean": abs(result.metrics["mean"].value - sum(rewards) / len(rewards)) < 1e-12,
        "unscored": result.unscored_samples,
        "told": [one.reason, one.explanation, one.metadata["error"]],
    }


def episodes() -> dict[str, Any]:
    """Number guessing by binary search: every game is won, by texts that depend on what the session replied."""
    sources = open_held_out("number_guessing", count=3)
    texts, expected = [], []
    for row in sources.held_out():
        label, prompt = sources.task(row["verigym"])
        reference = prompt.references["number_guessing"]
        low, high = reference.above, reference.below
        while True:
            guess = (low + high) // 2
            texts.append(rf"\boxed{{{guess}}}")
            if guess == reference.number:
                break
            low, high = (guess, high) if guess < reference.number else (low, guess)
        expected.append(1.0)
    log = run(ours.task(sources, workers=1), texts)
    turns = [sum(message.role == "assistant" for message in one.messages) for one in log.samples]
    return {"scores": scores(log), "expected": expected, "turns": sum(turns), "texts": len(texts)}


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else ""
    report = {"data": data_set(folder), "own": own_data_set(), "no reward": no_reward(), "episodes": episodes()}
    print(json.dumps(report), flush=True)
