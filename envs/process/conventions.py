r"""Builds the input of a process reward model by its convention: task, steps, and a mark after each step for its reward.

- `qwen` (Qwen2.5-Math-PRM, arXiv 2501.07301, and its model card): the chat template, with `<extra_0>` after each step. The
  reward is P(class 1) of a two-class head at that token.
- `shepherd` (Math-Shepherd, arXiv 2312.08935, and its model card): the task, a space, then a line for each step:
  `Step 1: ... \u043a\u0438`. The reward is P(`+`) of a language model's softmax over `+` and `-` at the last token of each
  line.
- `tokens` (TRL's PRMTrainer): the task and each step with a separator, tokenized piece by piece. The reward is a token
  classifier's probability at the separator's last token.

The positions of the marks are known from putting the text together. The text is not searched for marks, so a mark that the
solution itself contains does not end a step. Marks and special tokens in the task and the solution are also broken up by a
space, so that the model does not see them as tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from verigym.envs.contract.schema import Message, sha256_hex
from verigym.envs.linear import encodable

Kind = Literal["qwen", "shepherd", "tokens"]

GOOD, BAD = "+", "-"
_STAND_IN = sha256_hex("the solution stands here")[:24]


@dataclass(frozen=True)
class Convention:
    """How a solution is laid out."""

    kind: Kind
    tag: str
    """What stands after each step."""
    system: str | None = None
    """The system message of a task that has none of its own."""


class TooLong(Exception):
    """More tokens than the model reads."""


class Encoded(NamedTuple):
    """Token ids, and for each step the index of the token at which its verdict is read."""

    token_ids: tuple[int, ...]
    places: tuple[int, ...]


CONVENTIONS: dict[Kind, Convention] = {
    "qwen": Convention("qwen", "<extra_0>", "Please reason step by step, and put your final answer within \\boxed{}."),
    "shepherd": Convention("shepherd", "\u043a\u0438"),
    "tokens": Convention("tokens", "\n"),
}


def special_marks(tokenizer: Any, convention: Convention) -> tuple[str, ...]:
    """Return the texts with a special meaning for the model: special tokens and the step tag."""
    added = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    marks = {*added, *map(str, tokenizer.all_special_tokens), convention.tag}
    return tuple(sorted((mark for mark in marks if mark.strip()), key=lambda mark: (-len(mark), mark)))


def pulled_apart(text: str, marks: Iterable[str]) -> str:
    """Return `text` with each of `marks` broken by a space after its first character. A one-character mark becomes a space."""
    for mark in marks:
        if mark in text:
            text = text.replace(mark, f"{mark[0]} {mark[1:]}" if len(mark) > 1 else " ")
    return text


def encode(tokenizer: Any, messages: Sequence[Message], steps: Sequence[str], convention: Convention) -> Encoded:
    """Return the tokens of a task and its solution, and the position at which each step's verdict is read.

    Args:
        tokenizer: a fast tokenizer; the convention `qwen` uses its chat template, if it has one.
        messages: messages of the task.
        steps: at least one step, each without white space at its ends.
        convention: how the task, the steps and the marks are laid out.

    Raises:
        ValueError: the tokenizer merges a mark with the text beside it, or the chat template does not render the assistant's
            turn.
    """
    marks = special_marks(tokenizer, convention)
    steps = [_harmless(tokenizer, step, marks) for step in steps]
    task = [message.model_copy(update={"content": _harmless(tokenizer, message.content, marks)}) for message in messages]
    if convention.kind == "tokens":
        return _piecewise(tokenizer, task, steps, convention.tag)
    body, ends = "", []
    for number, step in enumerate(steps, 1):
        if convention.kind == "shepherd":
            step = step if step.lower().startswith("step") else f"Step {number}: {step}"
            body += ("\n" if body else "") + f"{step} {convention.tag}"
        else:
            body += step + convention.tag
        ends.append(len(body))
    text, start = _shown(tokenizer, task, body, convention)
    # A template writes the special tokens that it wants.
    whole = tokenizer(text, add_special_tokens=not _templated(tokenizer, convention), return_offsets_mapping=True)
    last = {end: index for index, (low, end) in enumerate(whole["offset_mapping"]) if end > low}
    places = [last.get(start + end) for end in ends]
    mark_id = tag_id(tokenizer, convention)
    verdict_places = tuple(place for place in places if place is not None and whole["input_ids"][place] == mark_id)
    if len(verdict_places) != len(steps):
        raise ValueError(
            f"{len(steps) - len(verdict_places)} of {len(steps)} marks {convention.tag!r} are no token of their own"
        )
    return Encoded(tuple(whole["input_ids"]), verdict_places)


def tag_id(tokenizer: Any, convention: Convention) -> int:
    """Return the id of the last token of the step tag.

    The model's output at this token is the step's reward, as in the example code of the models' cards.
    """
    ids = tokenizer.encode(convention.tag, add_special_tokens=False)
    return int(ids[-1])


def _harmless(tokenizer: Any, text: str, marks: Sequence[str]) -> str:
    """Return the text without marks, also those that the tokenizer's normalizer would make, say of a full-width bracket."""
    text = pulled_apart(encodable(text), marks)
    normalizer = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
    if normalizer is None or text.isascii():
        return text
    seen = normalizer.normalize_str(text)
    return pulled_apart(seen, marks) if any(mark in seen for mark in marks) else text


def _templated(tokenizer: Any, convention: Convention) -> bool:
    return convention.kind == "qwen" and bool(tokenizer.chat_template)


def _shown(tokenizer: Any, task: Sequence[Message], body: str, convention: Convention) -> tuple[str, int]:
    """Return the whole text and where the solution begins in it."""
    if not _templated(tokenizer, convention):
        head = "\n".join(message.content for message in task) + (" " if convention.kind == "shepherd" else "\n")
        return head + body, len(head)
    chat = [message.model_dump() for message in task]
    if convention.system is not None and not any(message.role == "system" for message in task):
        chat.insert(0, {"role": "system", "content": convention.system})
    # Filled with a stand-in: a template may trim what it is given, or take the thinking out of it.
    filled = tokenizer.apply_chat_template([*chat, {"role": "assistant", "content": _STAND_IN}], tokenize=False)
    before, separator, after = str(filled).rpartition(_STAND_IN)
    if not separator:
        raise ValueError("the chat template does not show the assistant's turn")
    return before + body + after, len(before)


def _piecewise(tokenizer: Any, task: Sequence[Message], steps: Sequence[str], separator: str) -> Encoded:
    ids = list(tokenizer.encode("\n".join(message.content for message in task)))
    between = tokenizer.encode(separator, add_special_tokens=False)
    places = []
    for step in steps:
        ids += [*tokenizer.encode(step, add_special_tokens=False), *between]
        places.append(len(ids) - 1)
    return Encoded(tuple(ids), tuple(places))
