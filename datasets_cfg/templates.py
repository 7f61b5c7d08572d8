"""Prompt templates, from the YAML files in `templates/`: system and user messages around a task, with examples before it."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from verigym.datasets_cfg.fields import fill, near_placeholder, placeholders
from verigym.datasets_cfg.yamlfile import read, text_of
from verigym.envs import Message, UsageError
from verigym.envs.contract.errors import did_you_mean

ASKED = ("prompt", "question")
ANSWERED = ("worked", "gold")


class Wording(BaseModel):
    """The wording of the messages around a task."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    system: str | None = None
    """The system's message."""
    user: str = "{prompt}"
    """The user's message. `{prompt}` is replaced by the task as its data set words it, `{question}` by the task without
    instructions about the answer's form."""
    shown: str = "{worked}"
    """The assistant's message in a few-shot example. `{worked}` is replaced by the answer as the data set writes it, `{gold}`
    by the right answer as the environment writes it."""

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        for field, text, known in (("user", self.user, ASKED), ("shown", self.shown, ANSWERED)):
            if near := near_placeholder(text, known):
                raise ValueError(f"{field} holds {near}")
            names = placeholders(text)
            for name in names:
                if name not in known:
                    raise ValueError(f"{field} names {{{name}}}{did_you_mean(name, known)}")
            if not names:
                raise ValueError(f"{field} names none of {', '.join(f'{{{name}}}' for name in known)}")
        if self.system is not None and placeholders(self.system):
            raise ValueError("system is the same for every task and takes no {name}")
        return self


class Template(Wording):
    """A prompt template."""

    name: str
    """Short name."""
    description: str
    """One sentence."""
    source: str = ""
    """The paper or model card that has it."""
    plain: bool = False
    """Whether the prompt is text without the tokenizer's chat template, for base models."""
    joint: str = "\n\n"
    """Separator between the system's text, the examples and the task; used only if `plain` is true."""
    languages: Mapping[str, Wording] = {}
    """ISO 639-1 code -> the wording in that language, which is chosen by `name:code`."""

    def messages(
        self, asked: Mapping[str, str | None], examples: Sequence[Mapping[str, str | None]] = ()
    ) -> tuple[Message, ...]:
        """Return the messages of a prompt that asks a task.

        Args:
            asked: the task's `prompt`, and its `question` or None.
            examples: for each example its `prompt`, `question`, `worked` answer and `gold`.

        Raises:
            FieldProblem: the template names a field that is None.
        """
        turns = [text for row in examples for text in (fill(self.user, row), fill(self.shown, row))]
        last = fill(self.user, asked)
        if self.plain:
            shown = [f"{question} {answer}" for question, answer in zip(turns[::2], turns[1::2], strict=True)]
            return (Message(role="user", content=self.joint.join([*filter(None, [self.system]), *shown, last])),)
        messages = [Message(role="system", content=self.system)] if self.system else []
        messages += [Message(role="assistant" if place % 2 else "user", content=text) for place, text in enumerate(turns)]
        return (*messages, Message(role="user", content=last))


def available_templates() -> list[str]:
    """Return the names of the templates that come with the package."""
    files = importlib.resources.files("verigym.datasets_cfg").joinpath("templates").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


@cache
def load_template(name: str) -> Template:
    """Return a template: one of `available_templates()` or a YAML file; a suffix `:code` chooses one of its languages.

    Raises:
        UsageError: there is no such template or language, or the file does not follow the schema.
    """
    stem, _, language = name.rpartition(":") if ":" in name and not name.endswith((".yaml", ".yml")) else (name, "", "")
    if stem in available_templates():
        file = importlib.resources.files("verigym.datasets_cfg").joinpath("templates", f"{stem}.yaml")
        text, place = file.read_text(encoding="utf-8"), f"templates/{stem}.yaml"
    elif stem.endswith((".yaml", ".yml")):
        text, place = text_of(stem), stem
    else:
        raise UsageError(f"no template is called {stem!r}{did_you_mean(stem, available_templates())}; or give a .yaml file")
    template = read(text, place, Template, "name, description and user")
    if not language:
        return template
    if language not in template.languages:
        raise UsageError(f"template {stem!r} has no language {language!r}{did_you_mean(language, template.languages)}")
    wording = template.languages[language]
    return template.model_copy(update={**wording.model_dump(), "name": name})
