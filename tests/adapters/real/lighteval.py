"""lighteval's pipeline evaluates our tasks with a model that reads its answers from a file."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from adapter_environments import Half
from lighteval.logging.evaluation_tracker import EvaluationTracker
from lighteval.models.custom.custom_model import CustomModelConfig
from lighteval.models.model_output import ModelResponse
from lighteval.pipeline import ParallelismManager, Pipeline, PipelineParameters
from lighteval.tasks.registry import Registry
from lighteval.tasks.requests import Doc

from verigym.adapters import lighteval, open_held_out
from verigym.envs import UsageError

MODEL = """
import json
from lighteval.models.abstract_model import LightevalModel
from lighteval.models.model_output import ModelResponse
from lighteval.utils.cache_management import SampleCache

class Written(LightevalModel):
    def __init__(self, config):
        self.config, self._cache = config, SampleCache(config)
        self.answers = json.load(open("answers.json"))

    tokenizer = None
    add_special_tokens = False
    max_length = 2048

    def greedy_until(self, docs):
        return [ModelResponse(input=doc.query, text=[self.answers[doc.query]]) for doc in docs]

    def loglikelihood(self, docs):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood
"""
TASKS = """
from verigym.adapters import lighteval
TASKS_TABLE = lighteval.tasks({what!r}, folder="rows", count=24, data_dir={folder!r}, workers=1, retries=0)
"""


def evaluate(what: Any, folder: str | None, names: list[str]) -> dict[str, Any]:
    Path("our_tasks.py").write_text(TASKS.format(what=what, folder=folder))
    pipeline = Pipeline(
        tasks=",".join(f"verigym:{name}|0" for name in names),
        pipeline_parameters=PipelineParameters(
            launcher_type=ParallelismManager.CUSTOM, custom_tasks_directory="our_tasks.py", bootstrap_iters=50
        ),
        evaluation_tracker=EvaluationTracker(output_dir="out"),
        model_config=CustomModelConfig(model_name="written", model_definition_file_path="model.py"),
    )
    pipeline.evaluate()
    results = pipeline.get_results()["results"]
    return {name: results[f"verigym:{name}:0"] for name in names}


def data_set(folder: str) -> dict[str, Any]:
    what, given = ("gsm8k", folder) if folder else ("story", None)
    sources = open_held_out(what, count=24, data_dir=given)
    answers, expected = {}, []
    for number, row in enumerate(sources.held_out()):
        label, prompt = sources.task(row["verigym"])
        environment = sources.environments[label]
        text = [environment.gold(prompt), r"It is \boxed{-1}.", ""][number % 3] or ""
        answers[lighteval.query_of(prompt)] = text
        expected.append(environment.score(prompt, text).reward)
    Path("answers.json").write_text(json.dumps(answers))
    return {"lighteval": evaluate(what, given, [what])[what], "mean": sum(expected) / len(expected), "rows": len(expected)}


def no_reward() -> dict[str, Any]:
    """The metric alone, on documents of another data set, and its aggregate."""
    env = Half()
    measured = lighteval.metric(env, workers=0, retries=0)
    texts = [str(number) for number in range(8)]
    doc = Doc(query="Say anything.", choices=[""], gold_index=0, specific={})
    values = [measured.compute_sample(doc=doc, model_response=ModelResponse(text=[text])) for text in texts]
    expected = [env.score(env.prompt_at("test", 0, 0), text).reward for text in texts]
    rewards = [one["verigym"] for one in values]
    sums = measured.get_corpus_aggregations()
    try:
        lighteval.tasks("number_guessing", folder="games", count=2)
        refused = ""
    except UsageError as error:
        refused = str(error)
    return {
        "lighteval": [None if math.isnan(one) else one for one in rewards],
        "env.score": expected,
        "mean": sums["verigym"](rewards),
        "unscored": sums["verigym_unscored"]([one["verigym_unscored"] for one in values]),
        "refused": refused,
    }


def columns() -> list[float]:
    measured = lighteval.metric("math", columns={"answer": "gold"}, workers=0)
    doc = Doc(query="What is 2+2?", choices=["4"], gold_index=0)
    answers = (r"\boxed{4}", r"\boxed{5}")
    return [measured.compute_sample(doc=doc, model_response=ModelResponse(text=[one]))["verigym"] for one in answers]


if __name__ == "__main__":
    Path("model.py").write_text(MODEL)
    # lighteval reads all tasks of its own first, and some of them ask the network.
    Registry._load_from_files = Registry._load_from_subdirs = staticmethod(lambda *places: {})
    folder = sys.argv[1] if len(sys.argv) > 1 else ""
    print(json.dumps({"data": data_set(folder), "no reward": no_reward(), "columns": columns()}), flush=True)
