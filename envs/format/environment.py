r"""The `format` environment: judges only a completion's layout, such as tags, boxes, and an answer in JSON or in a code fence.

Well-formed nonsense gets the full reward. So combine this environment, in a `Gate` or a `WeightedSum`, with another environment
that judges the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score, Status
from verigym.envs.extraction.boxes import box_spans, marks
from verigym.envs.extraction.fences import sole_block
from verigym.envs.extraction.visible import hollow
from verigym.envs.format.json_schema import follows_schema
from verigym.envs.format.options import FormatOptions
from verigym.envs.linear import JsonProblem, full_match, read_json

Span = tuple[int, int]
Box = tuple[int, int, int]
"""Start, start of the content, end of the content."""


class FormatReference(Reference):
    """No fields: the layout is in the options."""


class FormatEnvironment(BaseEnvironment[FormatReference, FormatOptions]):
    """Grades layout."""

    name = "format"
    version = "3"
    reference_type = FormatReference
    options_type = FormatOptions
    # Hacks aim at judges of answers; one in the right layout rightly passes here.
    expected_verdicts = ExpectedVerdicts(hacks="free")

    def examples(self) -> Sequence[Prompt]:
        """Return a task whose layout alone is judged."""
        return (self.prompt("What is 2 + 2? Think first, then answer."),)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.options.graded:  # hardly a text breaks every rule
            self.expected_verdicts = ExpectedVerdicts(echo="free", empty="free", garbage="free", hacks="free")  # type: ignore[misc]
        if self._asks_for_content():
            self.expected_verdicts = self.expected_verdicts.model_copy(update={"gold": "free"})  # type: ignore[misc]

    def check(self) -> None:
        """Raise EnvironmentFailure if a schema or a pattern needs a package that is not installed."""
        if self.options.json_schema is not None:
            follows_schema(None, self.options.json_schema)
        if self.options.pattern is not None:
            full_match(self.options.pattern, "")

    def gold(self, prompt: Prompt) -> str | None:
        """Return a completion in the layout that the options ask for, or None if a schema or pattern restricts its content."""
        options = self.options
        if self._asks_for_content():
            return None
        boxes = r" \boxed{0}" * (options.boxes or 0)
        answer = self._sample()
        parts = [
            f"<{tag}>{(answer if tag == options.answer_in else '') or '...'}{boxes if tag == options.box_in else ''}</{tag}>"
            for tag in options.tags
        ]
        text = "\n".join(parts)
        if options.outside != "nowhere" or not options.tags:
            after = answer if options.answer_in == "after" else ""
            text += "\n" + (after or "The answer:") + (boxes if options.box_in not in options.tags else "")
        elif options.box_in == "anywhere":
            text = text.removesuffix(f"</{options.tags[-1]}>") + f"{boxes}</{options.tags[-1]}>"
        return text.removeprefix(self._opening())

    def _sample(self) -> str:
        """Return an answer of the form asked for, or nothing where none is."""
        content = '{"answer": 0}' if self.options.json_answer else "..." if self.options.fence is not None else ""
        return content if self.options.fence is None else f"```{self.options.fence}\n{content}\n```"

    def _asks_for_content(self) -> bool:
        """Return whether some rule judges more than layout, or boxes stand where only JSON or a block may."""
        options = self.options
        formed = options.json_answer or options.fence is not None
        return options.json_schema is not None or options.pattern is not None or bool(formed and options.boxes)

    def judge(self, prompt: Prompt, reference: FormatReference, completion: Completion) -> Score:
        """Check every rule; the reason names the first that is broken."""
        if not completion.text.strip():
            return Score.no_answer(reason="the completion is empty")
        broken = self._broken(self._opening() + completion.text)
        components = {rule: float(not problem) for rule, problem in broken.items()}
        reason = next((f"{rule}: {problem}" for rule, problem in broken.items() if problem), "")
        if not reason:
            score = Score.correct(reason="the layout is as asked")
        elif completion.cut_off:
            score = Score.truncated(reason=f"cut off by the token limit: {reason}")
        else:
            score = Score.incorrect(reason=reason)
        if reason and self.options.graded and score.status is Status.INCORRECT:
            asked = [components[rule] for rule in self._asked(broken)]
            share = sum(asked) / len(asked)
            if share > 0:
                score = Score.partial(share, reason=reason)
        return score.model_copy(update={"components": components})

    def _asked(self, rules: Iterable[str]) -> list[str]:
        """Return the rules that these options make: without a number of boxes, none can be wrong."""
        options = self.options
        idle = {
            "tags": not options.tags,
            "filled": not options.tags or options.empty_tags,
            "outside": not options.tags or options.outside == "anywhere",
            "boxes": options.boxes is None,
            "place": not options.boxes or options.box_in == "anywhere",
        }
        return [rule for rule in rules if not idle.get(rule, False)]

    def _opening(self) -> str:
        """Return what the prompt has already written of the layout."""
        return f"<{self.options.tags[0]}>" if self.options.opened_by_prompt else ""

    def _broken(self, text: str) -> dict[str, str]:
        """Return what is wrong by rule; an empty string where the rule holds."""
        spans, problem = self._spans(text)
        boxes = box_spans(text) if self.options.boxes is not None else []
        if problem:
            broken = dict.fromkeys(("tags", "filled", "outside", "boxes", "place"), problem)
            broken["boxes"] = self._count(text, boxes)
        else:
            empty = next((tag for tag, (start, end) in spans.items() if hollow(text[start:end])), None)
            broken = {
                "tags": "",
                "filled": f"<{empty}> holds nothing" if empty and not self.options.empty_tags else "",
                "outside": self._outside(text, spans),
                "boxes": self._count(text, boxes),
                "place": self._place(text, spans, boxes),
            }
        return {**broken, **self._answer(text, spans, problem)}

    def _answer(self, text: str, spans: dict[str, Span], problem: str) -> dict[str, str]:
        """Return what is wrong with the answer, by the rules that ask for anything of it."""
        options = self.options
        asked = {
            "fence": options.fence is not None,
            "json": options.json_answer or options.json_schema is not None,
            "schema": options.json_schema is not None,
            "pattern": options.pattern is not None,
        }
        found = {rule: problem for rule, wanted in asked.items() if wanted}
        if problem or not found:
            return found
        if options.answer_in == "after":
            last = options.tags[-1] if options.tags else None
            answer = text[spans[last][1] + len(last) + 3 :] if last else text
        else:
            answer = text[slice(*spans[options.answer_in])]
        if options.fence is not None:
            answer, found["fence"] = sole_block(answer, options.fence)
            if found["fence"]:
                return {rule: f"the answer {found['fence']}" for rule in found}
        if asked["json"]:
            try:
                value = read_json(answer)
            except JsonProblem as wrong:
                found.update({rule: f"the answer {wrong}" for rule in ("json", "schema") if asked[rule]})
            else:
                found["schema"] = follows_schema(value, options.json_schema) if options.json_schema is not None else ""
                if options.json_schema is None:
                    del found["schema"]
        if options.pattern is not None:
            fits = full_match(options.pattern, answer.strip())
            found["pattern"] = "" if fits else "the answer does not fit the pattern"
        return found

    def _spans(self, text: str) -> tuple[dict[str, Span], str]:
        """Return the content of each tag, or what is wrong with the tags."""
        spans: dict[str, Span] = {}
        last = 0
        for tag in self.options.tags:
            places: list[int] = []
            for mark in (f"<{tag}>", f"</{tag}>"):
                place = text.find(mark)
                if place < 0 or text.rfind(mark) != place:
                    return {}, f"{mark} is missing" if place < 0 else f"{mark} stands {text.count(mark)} times"
                places.append(place)
            start, end = places
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

    def _count(self, text: str, boxes: Sequence[Box]) -> str:
        if self.options.boxes is None:
            return ""
        begun = marks(text)
        if begun != self.options.boxes:
            return f"{begun} boxes where {self.options.boxes} asked"
        if len(boxes) != begun:
            return "a box is nested or never closes"
        return "a box is empty" if any(hollow(text[start:end]) for _, start, end in boxes) else ""

    def _place(self, text: str, spans: dict[str, Span], boxes: Sequence[Box]) -> str:
        if self.options.boxes is None or self.options.box_in == "anywhere":
            return ""
        if self.options.box_in == "after":
            low = max((end for _, end in spans.values()), default=0)
            high, place = len(text), "after the last tag"
        else:
            (low, high), place = spans[self.options.box_in], f"in <{self.options.box_in}>"
        if self.options.boxes and not boxes:
            return "there is no box"
        return "" if all(low <= start < high for start, _, _ in boxes) else f"a box is not {place}"
