"""Options of the `format` environment, and its presets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from verigym.envs.contract.base import Options
from verigym.envs.format.json_schema import check_schema
from verigym.envs.linear import check_pattern

_TAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

# What each preset sets; options given beside it win. r1-zero and r1 are the templates of DeepSeek-R1 (2501.12948): the one
# has its answer in tags, the other after the thinking.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "r1": {"tags": ("think",), "outside": "after", "boxes": None},
    "r1-zero": {"tags": ("think", "answer"), "outside": "nowhere", "boxes": None, "answer_in": "answer"},
    "boxed": {"tags": (), "boxes": 1},
    "json": {"tags": (), "boxes": None, "json_answer": True},
}


class FormatOptions(Options):
    """The layout asked for."""

    preset: Literal["r1", "r1-zero", "boxed", "json"] | None = None
    """Named set of values for several of these options; see the table of presets. Options that are given explicitly win."""
    tags: tuple[str, ...] = ("think",)
    """Names of the tags, in the order in which each must stand exactly once: `<think>...</think>`."""
    outside: Literal["after", "anywhere", "nowhere"] = "after"
    """Where text outside the tags may stand; spaces and line breaks may stand anywhere."""
    empty_tags: bool = False
    """Whether a tag may hold nothing."""
    boxes: int | None = Field(1, ge=0)
    r"""Number of non-empty `\boxed{}` that the whole completion must hold; None: any number, anywhere."""
    box_in: str = "after"
    """Where the boxes stand: after the last tag, anywhere, or in the tag of that name."""
    opened_by_prompt: bool = False
    """Whether the chat template writes the first opening tag, so that completions begin inside it. Runs and evaluations of
    verigym find this out themselves."""
    answer_in: str = "after"
    """Where the answer stands: after the last tag (without tags, the whole completion), or in the named tag. The options
    `fence`, `json_answer`, `json_schema` and `pattern` check this answer."""
    fence: str | None = None
    """Language of the single fenced code block that the whole answer must be; '': any language or none; None: no check."""
    json_answer: bool = False
    """Whether the answer must be JSON, without nan and duplicate keys. With `fence`, the answer is the block's content."""
    json_schema: Mapping[str, JsonValue] | None = None
    """A JSON Schema (draft 2020-12) that the JSON answer must follow. Its patterns have RE2's syntax, and each `$ref` must
    point into the schema itself."""
    pattern: str | None = None
    """A regular expression in RE2's syntax that the whole answer must match. With `fence`, the answer is the block's
    content."""
    graded: bool = False
    """Whether the reward is the share of the rules that are kept; otherwise it is all or nothing."""

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, given: Any) -> Any:
        preset = PRESETS.get(str(given.get("preset")), {}) if isinstance(given, Mapping) else {}
        return {**preset, **given} if preset else given

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

    @model_validator(mode="after")
    def _answer(self) -> Self:
        if self.answer_in not in ("after", *self.tags):
            raise ValueError(f"answer_in is {self.answer_in!r}; give 'after' or one of the tags {list(self.tags)}")
        wanted = self.json_answer or self.json_schema is not None or self.pattern is not None or self.fence is not None
        if wanted and self.tags and self.answer_in == "after" and self.outside == "nowhere":
            raise ValueError("answer_in='after' puts the answer outside the tags, where outside='nowhere' forbids text")
        if self.json_schema is not None:
            check_schema(self.json_schema)
        if self.pattern is not None:
            check_pattern(self.pattern)
        return self
