"""Prompt templates with few-shot examples. The examples are rows of another split, drawn by a hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from verigym.datasets_cfg.fields import FieldProblem, fill
from verigym.datasets_cfg.rows import PreparedTask
from verigym.datasets_cfg.templates import Template
from verigym.envs import Environment, Prompt
from verigym.envs.contract.schema import sha256_hex

TRIES = 100
"""Maximum number of rows drawn per example. If too few of these can serve as examples, the split counts as too small."""


class ExampleRows(Protocol):
    """Rows from which few-shot examples are drawn."""

    environment: Environment

    def __len__(self) -> int: ...

    def bare(self, position: int) -> tuple[Prompt, PreparedTask]:
        """Return the prompt of row `position` without a template, and the task from which it was made."""


@dataclass(frozen=True)
class FewShotTemplate:
    """A template, and the number of examples before each task."""

    template: Template
    shots: int = 0
    examples: ExampleRows | None = None

    def apply(self, prompt: Prompt, task: PreparedTask) -> Prompt:
        """Return `prompt` in the template's wording, with examples that are drawn by a hash of the task's text.

        Raises:
            FieldProblem: the template needs a question and the data set has none, or too few rows can serve as examples.
        """
        examples = self._examples_for(task) if self.shots else []
        try:
            messages = self.template.messages({"prompt": task.text, "question": task.question}, examples)
        except FieldProblem as problem:
            reason = f"{problem}; template {self.template.name!r} needs it: give the data set a `{problem.field}`"
            raise FieldProblem(problem.field, reason) from None
        settings = {"template": self.template.name, "shots": self.shots, "plain": self.template.plain}
        metadata = {**prompt.metadata, **{name: value for name, value in settings.items() if value}}
        return Prompt(messages=messages, environment=prompt.environment, references=prompt.references, metadata=metadata)

    def _examples_for(self, task: PreparedTask) -> list[Mapping[str, str | None]]:
        assert self.examples is not None, "shots need rows to draw from"
        examples: list[Mapping[str, str | None]] = []
        seen, key = {task.text}, sha256_hex(task.text)
        for turn in range(TRIES * self.shots):
            position = int(sha256_hex(f"{key}/shot/{turn}"), 16) % len(self.examples)
            try:
                prompt, example = self.examples.bare(position)
            except ValueError:  # a row that does not fit is no example
                continue
            gold = self.examples.environment.gold(prompt)
            if gold is None or example.text in seen:
                continue
            seen.add(example.text)
            worked = fill(example.worked, {**example.row, "gold": gold})
            examples.append({"prompt": example.text, "question": example.question, "worked": worked, "gold": gold})
            if len(examples) == self.shots:
                return examples
        raise FieldProblem("shots", f"asks for {self.shots} examples, but only {len(examples)} rows can be shown")
