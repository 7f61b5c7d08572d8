"""The form in which an environment reads answers, and prompt templates that ask for it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import transformers

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError, error_context
from verigym.envs.contract.schema import Prompt
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.path import require_model
from verigym.trainer.tasks.mixture import make_source

logger = logging.getLogger("verigym.trainer")


@dataclass(frozen=True)
class AnswerForm:
    """A form of answers that a prompt can ask for."""

    marker: str
    """Text that every answer in this form has."""
    asked_by: str
    """Text of any prompt that asks for it."""
    template: str
    """Prompt template that asks for it."""


FORMS = (
    AnswerForm("<answer>", "<answer>", "r1-zero"),
    AnswerForm("<think>", "<think>", "think"),
    AnswerForm(r"\boxed{}", "boxed", "maths"),
)
"""Where answers have several markers, the first form counts: r1-zero's answers have tags for thoughts too."""


def missing_form(environment: Environment, prompt: Prompt) -> AnswerForm | None:
    """Return the form in which `environment` reads answers if `prompt` does not ask for it; None if it does, or has no gold."""
    gold = environment.gold(prompt) or ""
    places = getattr(getattr(environment, "options", None), "extract", None)
    if places is not None and "boxed" not in places:  # such as `last`: a gold has a box all the same
        return None
    asked = "\n".join(message.content for message in prompt.messages)
    form = next((form for form in FORMS if form.marker.removesuffix("}") in gold), None)
    return form if form is not None and form.asked_by not in asked else None


class HasSources(Protocol):
    """A configuration with sources, such as that of a run."""

    @property
    def sources(self) -> tuple[SourceConfig, ...]:
        """Return the mixture."""

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Return a copy with other fields."""


C = TypeVar("C", bound=HasSources)


def with_templates(config: C, models: Iterable[str], given: Mapping[str, Environment] | None = None) -> C:
    """Return `config` with a template for each source whose tasks do not ask for the form in which answers are read.

    A chat model that is asked `12+33=?` answers in a sentence, in which an environment that reads boxes finds nothing. So if
    all models are chat models, generated tasks get the template that asks for the form. A source with a template keeps
    it; `chat` is the template that adds nothing. The log says which sources got one.

    Args:
        config: of a run, a stage or an evaluation.
        models: folders or hub ids of the models that will answer.
        given: see `build_source`.

    Raises:
        UsageError: a source cannot be made, or a model has no tokenizer.
    """
    missing = [_missing_form_of(source, given) for source in config.sources]
    if not any(missing) or not all(map(marks_turns, models)):
        return config
    chosen = []
    for source, form in zip(config.sources, missing, strict=True):
        if form is not None:
            logger.warning(
                "source %s: template %s, which asks for %s, where the environment reads answers; `template: chat` leaves the "
                "tasks as they are",
                source.label,
                form.template,
                form.marker,
            )
        chosen.append(source if form is None else source.model_copy(update={"template": form.template}))
    return config.model_copy(update={"sources": tuple(chosen)})


def _missing_form_of(source: SourceConfig, given: Mapping[str, Environment] | None) -> AnswerForm | None:
    if source.dataset is not None or source.template is not None or source.tools:
        return None
    made = make_source(source.model_copy(update={"eval_split": None}), 0, 0, given)
    with error_context(f"source {source.label!r}"):
        return missing_form(made.environment, made.train(0))


def marks_turns(model: str) -> bool:
    """Return True if the chat template of `model`, a folder or a hub id, writes more than the text of a message.

    This tells chat models from base models, and from models that verigym made from nothing.

    Raises:
        UsageError: the model has no tokenizer that can be loaded.
    """
    path = require_model(model)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"model: the tokenizer of {path!r} cannot be loaded: {' '.join(str(error).split())[:300]}") from None
    if not tokenizer.chat_template:
        return False
    return Codec(tokenizer).render([{"role": "user", "content": "x"}], None).strip() != "x"
