r"""The `format` environment: is the completion laid out as asked? Tags in order, each once; so many boxes, in their place.

It judges layout alone: well-formed nonsense gets full marks. Put it in a `Gate` or a sum with an environment that judges the
answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from verigym.envs.base import BaseEnvironment, Options, Panel
from verigym.envs.boxes import MARK, box_spans
from verigym.envs.schema import Completion, Prompt, Reference, Score

_TAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

Span = tuple[int, int]


class FormatReference(Reference):
    """Nothing: the layout is in the options."""


class FormatOptions(Options):
    """The layout asked for."""

    tags: tuple[str, ...] = ("think",)
    """Names of the tags, in the order in which each must stand exactly once: `<think>...</think>`."""
    outside: Literal["after", "anywhere", "nowhere"] = "after"
    """Where text outside the tags may stand; spaces and line breaks may stand anywhere."""
    empty_tags: bool = False
    """Whether a tag may hold nothing."""
    boxes: int | None = Field(1, ge=0)
    r"""How many non-empty `\boxed{}` the completion holds, all told; None: any number, anywhere."""
    box_in: str = "after"
    """Where the boxes stand: after the last tag, anywhere, or in the tag of that name."""
    opened_by_prompt: bool = False
    """Whether the chat template writes the first opening tag, so that completions begin inside it."""

    @field_validator("tags", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for tag in self.tags:
            if not _TAG_NAME.fullmatch(tag):
                raise ValueError(f"tags holds {tag!r}; give names without brackets, such as 'think'")
        if len(set(self.tags)) != len(self.tags):
            raise ValueError("tags names a tag twice; each stands exactly once")
        if self.box_in not in ("after", "anywhere", *self.tags):
            raise ValueError(f"box_in is {self.box_in!r}; give 'after', 'anywhere' or one of the tags {list(self.tags)}")
        if self.boxes and self.box_in == "after" and self.outside == "nowhere":
            raise ValueError("box_in='after' puts the box outside the tags, where outside='nowhere' forbids text")
        if self.opened_by_prompt and not self.tags:
            raise ValueError("opened_by_prompt needs a tag to be opened")
        return self


class FormatEnvironment(BaseEnvironment[FormatReference, FormatOptions]):
    """Grades layout."""

    name = "format"
    version = "1"
    reference_type = FormatReference
    options_type = FormatOptions
    # Tricks that fool a judge of answers are nothing to a judge of layout: a hack in the right layout is in the right layout.
    panel = Panel(hacks="free")

    def examples(self) -> Sequence[Prompt]:
        """Return a task of which nothing but the layout will be judged."""
        return (self.prompt("What is 2 + 2? Think first, then answer."),)

    def gold(self, prompt: Prompt) -> str:
        """Return a completion in the layout asked for."""
        options = self.options
        boxes = r" \boxed{0}" * (options.boxes or 0)
        parts = [f"<{tag}>...{boxes if tag == options.box_in else ''}</{tag}>" for tag in options.tags]
        text = "\n".join(parts)
        if options.outside != "nowhere" or not options.tags:
            text += "\nThe answer:" + (boxes if options.box_in not in options.tags else "")
        elif options.box_in == "anywhere":
            text = text.removesuffix(f"</{options.tags[-1]}>") + f"{boxes}</{options.tags[-1]}>"
        return text.removeprefix(self._opening())

    def judge(self, prompt: Prompt, reference: FormatReference, completion: Completion) -> Score:
        """Check every rule; the reason names the first that is broken."""
        if not completion.text.strip():
            return Score.no_answer(reason="the completion is empty")
        broken = self._broken(self._opening() + completion.text)
        components = {rule: float(not problem) for rule, problem in broken.items()}
        reason = next((f"{rule}: {problem}" for rule, problem in broken.items() if problem), "")
        if not reason:
            score = Score.correct(reason="the layout is as asked")
        elif completion.finish_reason == "length":
            score = Score.truncated(reason=f"cut off by the token limit: {reason}")
        else:
            score = Score.incorrect(reason=reason)
        return score.model_copy(update={"components": components})

    def _opening(self) -> str:
        """Return what the prompt has already written of the layout."""
        return f"<{self.options.tags[0]}>" if self.options.opened_by_prompt else ""

    def _broken(self, text: str) -> dict[str, str]:
        """Return what is wrong by rule; an empty string where the rule holds."""
        spans, problem = self._spans(text)
        if problem:
            return {"tags": problem, "filled": problem, "outside": problem, "boxes": self._count(text), "place": problem}
        empty = next((tag for tag, (start, end) in spans.items() if _blank(text[start:end])), None)
        return {
            "tags": "",
            "filled": f"<{empty}> holds nothing" if empty and not self.options.empty_tags else "",
            "outside": self._outside(text, spans),
            "boxes": self._count(text),
            "place": self._place(text, spans),
        }

    def _spans(self, text: str) -> tuple[dict[str, Span], str]:
        """Return the content of each tag, or what is wrong with the tags."""
        spans: dict[str, Span] = {}
        last = 0
        for tag in self.options.tags:
            for mark in (f"<{tag}>", f"</{tag}>"):
                count = text.count(mark)
                if count != 1:
                    return {}, f"{mark} is missing" if not count else f"{mark} stands {count} times"
            start, end = text.index(f"<{tag}>"), text.index(f"</{tag}>")
            if end < start:
                return {}, f"</{tag}> stands before <{tag}>"
            if start < last:
                return {}, f"<{tag}> stands before the tag that should precede it has closed"
            spans[tag] = (start + len(tag) + 2, end)
            last = end + len(tag) + 3
        return spans, ""

    def _outside(self, text: str, spans: dict[str, Span]) -> str:
        if self.options.outside == "anywhere" or not spans:
            return ""
        last = 0
        for tag, (start, end) in spans.items():
            if text[last : start - len(tag) - 2].strip():
                return f"there is text before <{tag}>, outside the tags"
            last = end + len(tag) + 3
        return "there is text after the last tag" if self.options.outside == "nowhere" and text[last:].strip() else ""

    def _count(self, text: str) -> str:
        if self.options.boxes is None:
            return ""
        marks, spans = len(MARK.findall(text)), box_spans(text)
        if marks != self.options.boxes:
            return f"{marks} boxes where {self.options.boxes} asked"
        if len(spans) != marks:
            return "a box is nested or never closes"
        return "a box is empty" if any(_blank(text[start:end].strip(" {}$~\\,;:!")) for _, start, end in spans) else ""

    def _place(self, text: str, spans: dict[str, Span]) -> str:
        if self.options.boxes is None or self.options.box_in == "anywhere":
            return ""
        if self.options.box_in == "after":
            low = max((end for _, end in spans.values()), default=0)
            high, place = len(text), "after the last tag"
        else:
            (low, high), place = spans[self.options.box_in], f"in <{self.options.box_in}>"
        return "" if all(low <= start < high for start, _, _ in box_spans(text)) else f"a box is not {place}"


def _blank(text: str) -> bool:
    """Whether there is nothing to see: spaces, zero-width and control characters."""
    return not any(char.isprintable() and not char.isspace() for char in text)
