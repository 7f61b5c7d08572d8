"""Checks and changes of prompts for chat models: a source's system message, and a tag that the prompt has opened."""

from __future__ import annotations

from verigym.datasets_cfg.suites import SuiteSource
from verigym.envs.composition.base import Composition
from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Message, Prompt
from verigym.envs.format.environment import FormatEnvironment
from verigym.envs.tools.environment import ToolEnvironment


def with_system(config: SuiteSource, prompt: Prompt) -> Prompt:
    """Return `prompt` with the source's system message before its messages; `prompt` itself if the source has none.

    Raises:
        UsageError: the prompt has a system message already, or is plain text for base models.
    """
    if config.system is None:
        return prompt
    place = f"source {config.label!r}: system"
    if prompt.metadata.get("plain"):
        raise UsageError(
            f"{place}: template {config.template!r} writes plain text for base models, which has no system message; leave it "
            "out, or take a template for chat models"
        )
    own = next((message.content for message in prompt.messages if message.role == "system"), None)
    if own is not None:
        writer = f"template {config.template!r}" if config.template else "the environment or data set"
        raise UsageError(
            f"{place}: prompts have a system message already, from {writer}: {own[:60]!r}; leave out `system`, or take "
            "`template: chat`, which adds none"
        )
    messages = (Message(role="system", content=config.system), *prompt.messages)
    return Prompt(messages=messages, environment=prompt.environment, references=prompt.references, metadata=prompt.metadata)


def refuse_opened_twice(label: str, environment: Environment, opening: str) -> None:
    """Check that no `format` environment expects its first tag to be opened by the prompt, if completions begin with that tag.

    Args:
        label: label of the source, for the message.
        environment: the source's environment, or a part of it.
        opening: what the prompt has written of the completion; see `Codec.opening`.

    Raises:
        UsageError: the option opened_by_prompt of such an environment would count the tag twice.
    """
    if isinstance(environment, Composition):
        for part in environment.parts.values():
            refuse_opened_twice(label, part, opening)
    elif isinstance(environment, ToolEnvironment):
        refuse_opened_twice(label, environment.inner, opening)
    elif isinstance(environment, FormatEnvironment):
        options = environment.options
        if options.opened_by_prompt and opening.startswith(f"<{options.tags[0]}>"):
            raise UsageError(
                f"source {label!r}: format: leave out opened_by_prompt: prompts end with {opening.strip()!r}, and this is put "
                "before completions when they are graded, so the tag would count twice"
            )
