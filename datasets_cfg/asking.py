"""How a row is asked: through a template, after examples from the train split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from verigym.datasets_cfg.fields import FieldProblem, fill
from verigym.datasets_cfg.rows import Task
from verigym.datasets_cfg.templates import Template
from verigym.envs import Environment, Prompt
from verigym.envs.contract.schema import sha256_hex

TRIES = 100
"""Rows looked at for one example before there are held to be too few."""


class Examples(Protocol):
    """Rows to show."""

    environment: Environment

    def __len__(self) -> int: ...

    def bare(self, position: int) -> tuple[Prompt, Task]:
        """Return a row without a template: its prompt, and the task that it was made of."""


@dataclass(frozen=True)
class Asking:
    """A template and how many examples stand before each task."""

    template: Template
    shots: int = 0
    examples: Examples | None = None

    def ask(self, prompt: Prompt, task: Task) -> Prompt:
        """Return the prompt in the template's words, with examples drawn by the hash of what is asked.

        Raises:
            FieldProblem: the template needs a question and the data set has none, or there are too few rows to show.
        """
        shown = self._drawn(task) if self.shots else []
        try:
            messages = self.template.messages({"prompt": task.text, "question": task.question}, shown)
        except FieldProblem as problem:
            reason = f"{problem}; template {self.template.name!r} needs it: give the data set a `{problem.field}`"
            raise FieldProblem(problem.field, reason) from None
        said = {"template": self.template.name, "shots": self.shots, "plain": self.template.plain}
        metadata = {**prompt.metadata, **{name: value for name, value in said.items() if value}}
        return Prompt(messages=messages, environment=prompt.environment, references=prompt.references, metadata=metadata)

    def _drawn(self, task: Task) -> list[Mapping[str, str | None]]:
        assert self.examples is not None, "shots come with rows to draw from"
        found: list[Mapping[str, str | None]] = []
        seen, asked = {task.text}, sha256_hex(task.text)
        for turn in range(TRIES * self.shots):
            position = int(sha256_hex(f"{asked}/shot/{turn}"), 16) % len(self.examples)
            try:
                prompt, shown = self.examples.bare(position)
            except ValueError:  # a row that does not fit is no example
                continue
            gold = self.examples.environment.gold(prompt)
            if gold is None or shown.text in seen:
                continue
            seen.add(shown.text)
            worked = fill(shown.worked, {**shown.row, "gold": gold})
            found.append({"prompt": shown.text, "question": shown.question, "worked": worked, "gold": gold})
            if len(found) == self.shots:
                return found
        raise FieldProblem("shots", f"asks for {self.shots} examples, but only {len(found)} rows can be shown")
