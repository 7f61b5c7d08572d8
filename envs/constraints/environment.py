"""The `constraints` environment: checks a response against the checkable instructions of its prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from verigym.envs.constraints.echo import is_echo
from verigym.envs.constraints.table import Constraint, find
from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score
from verigym.envs.extraction.methods import strip_thinking
from verigym.envs.extraction.visible import blank


class ConstraintsReference(Reference):
    """The instructions, in the form of IFEval's data."""

    instruction_id_list: tuple[str, ...] = Field(min_length=1)
    """Ids of the instructions; one may stand several times."""
    kwargs: tuple[Mapping[str, JsonValue], ...]
    """The arguments of each instruction, in the order of the ids. Null values (unused columns of a data set) are dropped."""
    gold: str | None = None
    """A response that follows all of them, where one is known."""

    @field_validator("kwargs", mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple) or not all(isinstance(one, Mapping) for one in value):
            return value
        return [{name: given for name, given in one.items() if given is not None} for one in value]

    @model_validator(mode="after")
    def _checked(self) -> ConstraintsReference:
        ids = self.instruction_id_list
        if len(self.kwargs) != len(ids):
            raise ValueError(
                f"kwargs holds {len(self.kwargs)} sets of arguments for {len(ids)} instructions; give each its own"
            )
        typed = tuple(
            find(id).validate(given, f"instruction {number} of {len(ids)}")
            for number, (id, given) in enumerate(zip(ids, self.kwargs, strict=True), start=1)
        )
        object.__setattr__(self, "kwargs", typed)
        return self


class ConstraintsOptions(Options):
    """Options for reading responses and for the reward of following only some of the instructions."""

    mode: Literal["strict", "loose"] = "strict"
    """`strict`: the response as it is must follow an instruction. `loose`: the instruction also counts as followed if the
    response follows it once `*`, its first line or its last line is removed."""
    reward: Literal["all", "share"] = "all"
    """`all`: 1 if all instructions are followed, and else 0. `share`: the share of the instructions that are followed."""
    strict_echo: bool = True
    """Whether a response that is nothing but the prompt again gets the floor, though it may follow the instructions."""
    skip_thinking: bool = True
    """Whether only the text after the last `</think>` is judged. A response whose thinking never ends then has no answer."""
    max_chars: int = Field(200_000, ge=1)
    """A longer response is not read: the status is limit."""


class ConstraintsEnvironment(BaseEnvironment[ConstraintsReference, ConstraintsOptions]):
    """Grades the following of instructions."""

    name = "constraints"
    version = "4"
    reference_type = ConstraintsReference
    options_type = ConstraintsOptions

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        share = self.options.reward == "share"
        self.expected_verdicts = ExpectedVerdicts(  # type: ignore[misc]
            echo="floor" if self.options.strict_echo else "free",
            # hardly a text follows no instruction at all: garbage holds no comma
            garbage="free" if share else "floor",
            # the loose mode leaves a line out, which may be the line with the trick
            hacks="free" if share or self.options.mode == "loose" else "floor",
        )

    def examples(self) -> Sequence[Prompt]:
        """Return tasks of several kinds."""
        request = "Name a river of Europe."
        end = "Is there anything else I can help with?"
        return (
            self.prompt(
                f"{request}\nFirst repeat the request above word for word, then answer. Finish with: {end}",
                instruction_id_list=["combination:repeat_prompt", "startend:end_checker"],
                kwargs=[{"prompt_to_repeat": request}, {"end_phrase": end}],
                gold=f"{request}\nThe Danube. {end}",
            ),
            self.prompt(
                "Describe rain in one sentence. Wrap it in double quotation marks, use no comma, and use the word grey.",
                instruction_id_list=["startend:quotation", "punctuation:no_comma", "keywords:existence"],
                kwargs=[{}, {}, {"keywords": ["grey"]}],
                gold='"A grey curtain falls on the roofs."',
            ),
            self.prompt(
                "Describe a fox as a JSON object with the keys animal and colour.",
                instruction_id_list=["detectable_format:json_format", "keywords:existence"],
                kwargs=[{}, {"keywords": ["animal", "colour"]}],
                gold='{"animal": "fox", "colour": "red"}',
            ),
        )

    def gold(self, prompt: Prompt) -> str | None:
        """Return the reference's gold."""
        return self.reference(prompt).gold

    def judge(self, prompt: Prompt, reference: ConstraintsReference, completion: Completion) -> Score:
        """Check every instruction and return the score. The score's reason names the instructions that were not followed."""
        text = self._answer(completion.text)
        if text is None or blank(text):
            return Score.no_answer(reason="the response is empty" if text is not None else "the thinking never ends")
        if len(text) > self.options.max_chars:
            return Score.limit(reason=f"the response has {len(text)} characters, over {self.options.max_chars} (max_chars)")
        constraints = [find(id) for id in reference.instruction_id_list]
        variants = _variants(text) if self.options.mode == "loose" else (text,)
        results = [
            any(constraint.check(variant, **given) for variant in variants)
            for constraint, given in zip(constraints, reference.kwargs, strict=True)
        ]
        labels = _labels(reference.instruction_id_list)
        broken = [
            f"{label} ({c.definition})" for label, c, followed in zip(labels, constraints, results, strict=True) if not followed
        ]
        components = {label: float(followed) for label, followed in zip(labels, results, strict=True)}
        score = self._verdict(broken, components, completion, self._echoes(prompt, reference, constraints, text))
        return score.model_copy(update={"components": components})

    def _answer(self, text: str) -> str | None:
        if not self.options.skip_thinking:
            return text
        after = strip_thinking(text)
        return after if after is None or len(after) == len(text) else after.lstrip()

    def _verdict(self, broken: list[str], components: Mapping[str, float], completion: Completion, echo: bool) -> Score:
        if echo:
            return Score.incorrect(reason="the response is the prompt again and answers nothing")
        if not broken:
            return Score.correct(reason=f"all {len(components)} instructions are followed")
        reason = "not followed: " + "; ".join(broken)
        share = sum(components.values()) / len(components)
        if completion.cut_off:
            return Score.truncated(reason=f"cut off by the token limit: {reason}")
        return (
            Score.partial(share, reason=reason) if self.options.reward == "share" and share else Score.incorrect(reason=reason)
        )

    def _echoes(self, prompt: Prompt, reference: ConstraintsReference, constraints: Sequence[Constraint], text: str) -> bool:
        if not self.options.strict_echo:
            return False
        # A response that should be a part of the prompt is no echo for being one; but a request repeated is no answer to it.
        copied = any(constraint.copies for constraint in constraints)
        answered = [
            str(given["prompt_to_repeat"])
            for constraint, given in zip(constraints, reference.kwargs, strict=True)
            if constraint.id == "combination:repeat_prompt"
        ]
        return is_echo(prompt, text, answered, parts=not copied)


def _labels(ids: Sequence[str]) -> list[str]:
    """Return a name for each instruction: its id, and for the second of the same kind `id#2`."""
    seen: Counter[str] = Counter()
    labels = []
    for id in ids:
        seen[id] += 1
        labels.append(id if seen[id] == 1 else f"{id}#{seen[id]}")
    return labels


def _variants(text: str) -> tuple[str, ...]:
    """Return the eight readings of a text that IFEval's loose mode tries, without blank ones and doubles."""
    lines = text.split("\n")
    cut = [text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return tuple(dict.fromkeys(one for one in (*cut, *(part.replace("*", "") for part in cut)) if not blank(one)))
