"""Training examples (a prompt with its completion), read from JSON Lines files or written by environments."""

from __future__ import annotations

import gzip
import itertools
import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from verigym.datasets_cfg.few_shot import FewShotTemplate
from verigym.datasets_cfg.rows import PreparedTask
from verigym.datasets_cfg.templates import load_template
from verigym.envs import strict_json
from verigym.envs.contract.errors import UsageError, explain
from verigym.envs.contract.schema import Completion, Message, Prompt, canonical_json, sha256_hex
from verigym.envs.contract.session import TOOLS
from verigym.envs.extraction.methods import strip_thinking
from verigym.envs.registry import load
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.models.codec import Codec
from verigym.trainer.tasks.chat_prompts import with_system

logger = logging.getLogger("verigym.trainer")

_MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])
_GZIP = b"\x1f\x8b"
READ = {TOOLS, "plain", "template"}
"""Names in `Prompt.metadata` that decide how a prompt is encoded, or name the template in an error."""


@dataclass(frozen=True)
class Example:
    """A prompt and the completion that the model learns."""

    messages: tuple[Message, ...]
    completion: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """See `READ`."""

    @property
    def prompt(self) -> Prompt:
        """Return the messages of the example as a `Prompt` to encode with the chat template. No environment grades it."""
        return Prompt(messages=self.messages, environment="", references={}, metadata=self.metadata)

    @property
    def key(self) -> str:
        """Return a hash of the prompt alone."""
        return sha256_hex(canonical_json([message.model_dump() for message in self.messages]))


@dataclass(frozen=True)
class Pair:
    """An example as tokens; the completion ends with the end-of-sequence token."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]

    @property
    def length(self) -> int:
        """Return the number of tokens of prompt and completion together."""
        return len(self.prompt_ids) + len(self.token_ids)


def read_examples(path: Path) -> list[Example]:
    """Read examples from JSON Lines.

    A line has either `prompt` (a text or messages) and `completion`, or only `messages`; the last message is the assistant's.
    Other fields, such as the origin of the example, are ignored.

    Raises:
        UsageError: the file cannot be read, is empty, or a line has neither form; the message names file, line and field.
    """
    found = [_example(row, place) for place, row in json_lines(path)]
    if not found:
        raise UsageError(f"data: {path} has no examples")
    return found


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (`file:line`, value) for each line of a JSON Lines file, which may be gzipped; blank lines are skipped.

    Raises:
        UsageError: the file cannot be read, or a line is not JSON. Repeated fields and NaN are refused; see `strict_json`.
    """
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
        text = data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")  # JSON may hold other line breaks as they are
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(f"data: {path} is a damaged gzip file: {error}") from None
    except OSError as error:
        raise UsageError(f"data: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"data: {path} is not UTF-8 at byte {error.start}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                value = strict_json.loads(line)
            except ValueError as error:
                raise UsageError(f"{path}:{number}: not JSON: {error}") from None
            yield f"{path}:{number}", value


def _example(row: Any, place: str) -> Example:
    if not isinstance(row, dict):
        raise UsageError(f"{place}: expected an object with prompt and completion, got {type(row).__name__}")
    if "prompt" in row or "completion" in row:
        if not isinstance(row.get("completion"), str):
            raise UsageError(f"{place}: field 'completion' must be a text")
        prompt = row.get("prompt")
        if isinstance(prompt, str):
            return Example((Message(role="user", content=prompt),), row["completion"])
        return Example(messages_of(prompt, "prompt", place), row["completion"])
    messages = messages_of(row.get("messages"), "messages", place)
    if messages[-1].role != "assistant" or len(messages) < 2:
        raise UsageError(f"{place}: field 'messages' must end with an answer of the role assistant, after at least one other")
    return Example(messages[:-1], messages[-1].content)


def messages_of(value: Any, field: str, place: str) -> tuple[Message, ...]:
    """Return the messages in `value`, which is the content of the field `field`. An empty list is refused.

    Raises:
        UsageError: `value` is not a list of messages; the error message begins with `place`.
    """
    try:
        found = _MESSAGES.validate_python(value)
    except ValidationError as error:
        raise UsageError(f"{place}: field {field!r}: expected a text or a list of messages: {explain(error)}") from None
    if not found:
        raise UsageError(f"{place}: field {field!r} has no message")
    return found


def demonstrations(sources: Sequence[SourceConfig], split: str, count: int, seed: int) -> list[Example]:
    """Return examples of worked solutions that environments write, taken from `sources` in rotation.

    Args:
        sources: environments with their options, templates and system messages; weights and other fields have no effect.
        split: train or test; the two splits have no question in common.
        count: number of examples in total. An episode gives one example per turn.
        seed: key of the tasks.

    Raises:
        UsageError: an environment writes no worked solutions.
    """
    environments: list[Any] = [load(source.environment or "", **source.options) for source in sources]
    for source, environment in zip(sources, environments, strict=True):
        if not hasattr(environment, "demonstration") and not hasattr(environment, "demonstrate"):
            raise UsageError(
                f"demonstrations: environment {source.environment!r} writes no worked solutions (demonstration); name one that "
                "does, such as arithmetic, or give examples with `data`"
            )
    templates = [FewShotTemplate(load_template(source.template)) if source.template else None for source in sources]
    examples: list[Example] = []
    for index in itertools.count():
        if len(examples) >= count:
            break
        place = index % len(environments)
        template = templates[place]
        if hasattr(environments[place], "demonstrate"):  # an episode: an example for each turn
            task = with_system(sources[place], environments[place].prompt_at(split, seed, index))
            examples += episode_examples(task, environments[place].demonstrate(task))
            continue
        prompt, text = environments[place].demonstration(split, seed, index)
        if template is not None:  # the wording that reinforcement learning will use
            prompt = template.apply(prompt, PreparedTask(prompt.text, {}, {}, prompt.text))
        prompt = with_system(sources[place], prompt)
        examples.append(Example(prompt.messages, text, {name: prompt.metadata[name] for name in READ & set(prompt.metadata)}))
    return examples[:count]


def episode_examples(prompt: Prompt, episode: Completion) -> list[Example]:
    """Return one example for each assistant turn of an episode: the prompt is everything before the turn.

    Each completion is a single turn, so no tokens need to be masked. Examples have the same tokens as a rollout, unless the
    chat template writes a turn in another way once further turns follow (for example without its thinking).
    """
    messages, found = list(prompt.messages), []
    tools = {TOOLS: prompt.metadata[TOOLS]} if prompt.metadata.get(TOOLS) else {}
    for turn in episode.turns:
        if turn.role == "assistant":
            found.append(Example(tuple(messages), turn.text, tools))
        messages.append(turn.message)
    return found


def to_pairs(examples: Iterable[Example], codec: Codec) -> list[Pair]:
    """Return `examples` as tokens, without those whose prompt has no tokens.

    If the chat template has opened the thinking already, the completion's own opening tag is left out. It warns of completions
    that then never end the thinking, because graders find no answer in such texts.
    """
    pairs, unended = [], 0
    for one in examples:
        if prompt_ids := codec.encode(one.prompt):
            token_ids = codec.encode_completion(prompt_ids, one.completion)
            pairs.append(Pair(prompt_ids, (*token_ids, codec.end_id)))
            unended += bool(opening := codec.opening(prompt_ids)) and strip_thinking(opening + codec.decode(token_ids)) is None
    if unended:
        logger.warning(
            "examples: in %d of %d, the completion never ends the thinking that the prompt has opened, so graders find no "
            "answer; write thinking and its end, such as </think>, into completions, or set chat_template_kwargs",
            unended,
            len(pairs),
        )
    return pairs
