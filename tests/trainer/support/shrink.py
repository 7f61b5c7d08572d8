"""The rule by which a recipe or a suite becomes small enough to run in a test, whatever it holds.

- Models that are named, by hub id or folder, become a model of two layers made from nothing.
- Data sets keep their description; their rows become a dozen copies of its own sample row, told apart by a number.
- Sizes become those of `SIZES`; engines on GPUs become `native`; devices, workers and loggers those of a test.
- All else stays the recipe's own: losses, advantages, presets, rewards, templates, layouts, learning rates, rules of keeping.
- The first sample of a prompt, of every second prompt where there is one sample, is a right one where one can be written,
  with the model's log-probabilities: an untrained model is never right, and rewards that are all equal teach nothing.
- Without Lean, `lean` judges as far as it can without (`without_lean`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from verigym.datasets_cfg.load import description, load_config
from verigym.envs import Environment, Prompt, Status
from verigym.envs.composition.base import Composition
from verigym.trainer import loop
from verigym.trainer.config.engine import EngineFields
from verigym.trainer.engines.base import Generated
from verigym.trainer.logprobs.forward import completion_logprobs
from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer
from verigym.trainer.pipelines.stage_kinds import KINDS
from verigym.trainer.stages import sample_log

ROWS = 12
"""More than the examples that any recipe shows before a task."""
SIZES: dict[str, Any] = {
    "steps": 1,
    "epochs": 1,
    "group_size": 2,
    "updates_per_step": 2,
    "prompts": 2,
    "samples": 2,
    "prompts_at_a_time": 64,
    "max_new_tokens": 60,
    "overlong_cache": 20,
    "reference_every": 1,
    "rollouts": 2,
    "eval_prompts": 1,
    "eval_samples": 1,
    "demonstration_count": 12,
    "held_out_count": 2,
    "batch_size": 4,
    "texts": 60,
    "hidden_size": 32,
    "layers": 1,
    "heads": 2,
    "intermediate_size": 64,
}
"""Most that a field may be; a recipe's own value stays where it is less."""
WANTED = (
    "steps",
    "prompts",
    "max_new_tokens",
    "demonstration_count",
    "eval_prompts",
    "texts",
    "hidden_size",
    "layers",
    "heads",
)
"""Fields that are set even where the recipe leaves them at their default."""
HERE: dict[str, Any] = {"device": "cpu", "threads": 1, "workers": 0, "loggers": [], "max_prompt_tokens": 8000}


class Shrinker:
    """Makes small files of recipes and suites, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        """Make the small model.

        Args:
            folder: for the model and the data.
        """
        self.folder = folder
        self.model = folder / "tiny"
        tokenizer = scratch_tokenizer(["What is 2+2?\n<think>4</think>\n<answer>\\boxed{4}</answer>\n```python\nprint(4)\n```"])
        sizes: dict[str, Any] = {"hidden_size": 32, "layers": 2, "heads": 2, "intermediate_size": 64, "max_positions": 16384}
        scratch_qwen3(tokenizer, **sizes, seed=1).save_pretrained(self.model)
        tokenizer.save_pretrained(self.model)

    def recipe(self, path: Path) -> Path:
        """Return the file of a small pipeline with the stages of a recipe."""
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
        shared = {name: value for name, value in fields.get("defaults", {}).items() if name not in HERE}
        stages = [self._stage({**self._known(stage["kind"], shared), **stage}) for stage in fields["stages"]]
        return self._written(path.stem, {"seed": fields.get("seed", 0), "stages": stages})

    def suite(self, suite: Mapping[str, Any]) -> Path:
        """Return the file of a small pipeline that trains on a suite and measures on its sets.

        Args:
            suite: its YAML's fields.
        """
        curriculum = {"curriculum": True, **suite["curriculum"]} if suite.get("curriculum") is not None else {}
        run = {"name": "train", "kind": "grpo", "model": "a/model", "sources": suite["sources"], **suite["train"], **curriculum}
        stages = [self._stage(run)]
        if suite.get("measure"):
            asked = [{**one, "eval_split": one.get("split", "test"), "split": "-"} for one in suite["measure"]]
            measure = {"name": "measure", "kind": "evaluate", "models": {"trained": "stage:train"}, "sources": asked}
            stages.append(self._stage(measure))
        return self._written(suite["name"], {"seed": 0, "stages": stages})

    def _written(self, name: str, fields: Mapping[str, Any]) -> Path:
        path = self.folder / "pipelines" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        text = yaml.safe_dump({"output": str(self.folder / f"out-{name}"), **fields}, sort_keys=False)
        path.write_text(text, encoding="utf-8")
        return path

    def _known(self, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in fields.items() if name in KINDS[kind].config_type().model_fields}

    def _stage(self, stage: Mapping[str, Any]) -> dict[str, Any]:
        known = KINDS[stage["kind"]].config_type().model_fields
        small = {name: value for name, value in stage.items() if name not in EngineFields.model_fields}
        if "suite" in small:
            from verigym.datasets_cfg.suites import load_suite

            small = {**load_suite(small.pop("suite")).fields(), **small}
        for name, most in SIZES.items():
            if name in small or (name in known and name in WANTED):
                small[name] = min(most, small[name]) if isinstance(small.get(name), int | float) else most
        if not small.get("demonstrations"):
            small.pop("demonstration_count", None)
        if "prompts_per_step" in known:
            small["prompts_per_step"] = 2 * len(small["sources"])
        small |= {name: value for name, value in HERE.items() if name in known}
        for field in ("sources", "demonstrations"):
            if field in small:
                small[field] = [self._source(source, small["kind"]) for source in small[field]]
        for field in ("model", "models", "teacher"):
            if field in small:
                small[field] = self._model(small[field])
        if small.get("train_data"):
            names = [name.rpartition(":") for name in small["train_data"]]
            small["train_data"] = [f"{self._dataset(name)}:{split}" for name, _, split in names]
        return small

    def _model(self, named: Any) -> Any:
        if isinstance(named, Mapping):
            return {label: self._model(name) for label, name in named.items()}
        return named if str(named).startswith("stage:") else str(self.model)

    def _source(self, source: Mapping[str, Any], kind: str) -> dict[str, Any]:
        if source.get("dataset") is None:
            return dict(source)
        small = {**source, "dataset": str(self._dataset(source["dataset"])), "name": source.get("name") or source["dataset"]}
        if load_config(source["dataset"]).sample_row:
            small["data_dir"] = str(self.folder)
        return small

    def _dataset(self, name: str) -> Path | str:
        """Return the file of a data set's description whose rows are copies of its sample row, beside the rows."""
        config = load_config(name)
        if not config.sample_row:  # its environment writes the tasks
            return name
        fields = yaml.safe_load(description(name))
        fields.pop("hub", None)
        fields["files"] = {split: f"{name}-{split}.jsonl" for split in config.splits}
        path = self.folder / f"{name}.yaml"
        if not path.exists():
            path.write_text(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True), encoding="utf-8")
            for split in config.splits:
                rows = [_told_apart(fields, number, split) for number in range(ROWS)]
                (self.folder / f"{name}-{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path


def _told_apart(fields: Mapping[str, Any], number: int, split: str) -> dict[str, Any]:
    """Return the sample row with its number before the question, where the description says which column that is."""
    row = dict(fields["sample_row"])
    asking = re.findall(r"\{(\w+)\}", fields.get("question") or "")
    column = next((name for name in asking if isinstance(row.get(name), str)), None)
    if column is not None:
        row[column] = f"Task {number} of {split}. {row[column]}"
    return row


def gold_of(environment: Environment, prompt: Prompt) -> str | None:
    """Return a right completion: the environment's gold, or the primary part's gold in the layout of DeepSeek-R1-Zero."""
    gold = environment.gold(prompt)
    inner, task = environment, prompt
    while gold is None and isinstance(inner, Composition):
        primary = inner.options.primary
        inner, task = inner.parts[primary], inner.part_prompt(task, primary)
        own = inner.gold(task)
        wrapped = f"<think>\nThe answer is found step by step.\n</think>\n<answer>\n{own}\n</answer>"
        if own is not None and environment.score(prompt, wrapped).status is Status.CORRECT:
            gold = wrapped
    return gold


class WithGolds:
    """An engine whose first sample of a prompt is the prompt's gold; see the rule."""

    def __init__(self, engine: Any, codec: Any, golds: Sequence[str | None]) -> None:
        self.engine, self.codec, self.golds = engine, codec, golds

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[Any]],
        *,
        temperature: float,
        on_finished: Callable[[int, int, Generated], None],
        **more: Any,
    ) -> list[list[Generated]]:
        """Sample as the engine does, and put golds in their places before they are graded."""
        wanted = {
            p: self._gold(prompts[p], gold, temperature)
            for p, gold in enumerate(self.golds)
            if gold is not None and (len(row_keys[p]) > 1 or p % 2 == 0)
        }

        def finished(p: int, g: int, done: Generated) -> None:
            on_finished(p, g, wanted[p] if g == 0 and p in wanted else done)

        found = self.engine.generate(prompts, row_keys, temperature=temperature, on_finished=finished, **more)
        return [[wanted.get(p, row[0]), *row[1:]] for p, row in enumerate(found)]

    def _gold(self, prompt: Sequence[int], gold: str, temperature: float) -> Generated:
        tokens = (*self.codec.encode_text(gold), min(self.codec.eos_ids))
        with torch.no_grad():
            how: dict[str, Any] = {"temperature": temperature, "pad_id": self.codec.pad_id}
            logp_BT, _ = completion_logprobs(self.engine.model, [prompt], [tokens], **how)
        return Generated(tokens, tuple(logp_BT[0].tolist()), "stop")


def teach_golds(monkeypatch: Any) -> None:
    """Give every sampler of the trainer its golds."""
    for module in (loop, sample_log):
        real = module.collect

        def collect(engine: Any, codec: Any, graders: Any, tasks: Any, real: Any = real, **named: Any) -> Any:
            golds = [gold_of(source.environment, prompt) for source, prompt in tasks]
            return real(WithGolds(engine, codec, golds), codec, graders, tasks, **named)

        monkeypatch.setattr(module, "collect", collect)


def without_lean(monkeypatch: Any) -> None:
    """Let `lean` work where there is no Lean: a completion without a theorem in a fenced block is refused as ever, others fail.

    What an untrained model writes is refused before Lean would see it.
    """
    from verigym.envs.lean.environment import LeanEnvironment

    monkeypatch.setattr(LeanEnvironment, "check", lambda self: None)
