"""The `judge` environment: equivalence with a reference, grades by a rubric, or comparisons in both orders."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score
from verigym.envs.judge.client import ask, components
from verigym.envs.judge.endpoint import RefusedRequest, Spent, look
from verigym.envs.judge.judged_text import read
from verigym.envs.judge.options import JudgeOptions, JudgeReference
from verigym.envs.judge.pairwise import Meeting, Standing, meet, round_robin
from verigym.envs.judge.prompts import INSTRUCTIONS, TEMPLATES, compose, conversation
from verigym.envs.judge.replies import Verdict, form_of

_REASON_CHARS = 500


class JudgeEnvironment(BaseEnvironment[JudgeReference, JudgeOptions]):
    """Grades by asking a language model."""

    name = "judge"
    version = "2"
    reference_type = JudgeReference
    options_type = JudgeOptions

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.grades_groups = self.options.mode == "pairwise" and self.options.opponents == "group"
        if self.options.mode != "equivalence":
            # A grade or a comparison has no text that must win: what each is worth is the judge's opinion.
            self.expected_verdicts = ExpectedVerdicts(gold="free", echo="free", garbage="free", hacks="free")  # type: ignore[misc]

    def check(self) -> None:
        """Raise EnvironmentFailure unless the endpoint answers, accepts the key and has the model."""
        look(self.options)

    def examples(self) -> Sequence[Prompt]:
        """Return a task of the mode."""
        references: dict[str, dict[str, Any]] = {
            "equivalence": {"answer": "Canberra"},
            "rubric": {"rubric": "Is the answer right, and no longer than a sentence?"},
            "pairwise": {"baseline": "Sydney, I believe."},
        }
        return (self.prompt("Which city is the capital of Australia?", **references[self.options.mode]),)

    def make_reference(self, fields: Mapping[str, Any]) -> Reference:
        """Return a reference made from `fields`, after validating them.

        Raises:
            UsageError: a field is missing, unknown or of the wrong type, or the mode needs a field that is not given.
        """
        made = super().make_reference(fields)
        assert isinstance(made, JudgeReference)
        mode = self.options.mode
        if mode == "equivalence" and not made.answer.strip():
            raise UsageError("reference of 'judge': field 'answer' is missing, which mode='equivalence' compares with")
        if mode == "rubric" and not (made.rubric.strip() or self.options.rubric.strip()):
            raise UsageError("reference of 'judge': field 'rubric' is missing; give it here or as an option")
        if mode == "pairwise" and self.options.opponents == "baseline" and not made.baseline.strip():
            raise UsageError("reference of 'judge': field 'baseline' is missing, which opponents='baseline' compares with")
        return made

    def gold(self, prompt: Prompt) -> str | None:
        """Return the reference answer in mode `equivalence`, and None in the other modes, which ask for an opinion."""
        return self.reference(prompt).answer if self.options.mode == "equivalence" else None

    def judge(self, prompt: Prompt, reference: JudgeReference, completion: Completion) -> Score:
        """Ask about one completion."""
        text = self._read(completion)
        if isinstance(text, Score):
            return text
        if self.options.mode == "pairwise":
            if not reference.baseline.strip():
                raise EnvironmentFailure("gold_invalid", "judge: the prompt has no baseline; compare a group with score_group")
            return self._compared(self._meet(prompt, reference, text, reference.baseline))
        verdict, spent = self._ask(prompt, reference, {"submission": text}, self._deadline())
        return self._graded(verdict, spent)

    def score_group(self, prompt: Prompt, completions: Sequence[Completion | str]) -> list[Score]:
        """Return one score for each of `completions`.

        In mode `pairwise`, the option `opponents` decides what each completion is compared with: `baseline`, the reference's
        baseline, or `group`, every other completion.

        With `group`, the reward is the fraction of the other completions that this completion beats, where a tie counts half. A
        group of n costs n * (n - 1) requests. A completion with no text to judge gets the floor and loses without a request. If
        one comparison of a completion fails, this completion gets no score.

        Raises:
            UsageError: the prompt was made by another environment, or `completions` has a single element to compare.
        """
        if self.options.mode != "pairwise" or self.options.opponents == "baseline":
            return [self.score(prompt, completion) for completion in completions]
        if len(completions) == 1:
            raise UsageError("judge: a group of one has nobody to be compared with; give more, or opponents='baseline'")
        start = time.perf_counter()
        reference = self.reference(prompt)
        readings = [self._read(Completion.of(completion)) for completion in completions]
        texts = {place: text for place, text in enumerate(readings) if isinstance(text, str)}
        compare = functools.partial(self._meet_in_group, prompt, reference)
        standings = round_robin(texts, len(readings) - len(texts), compare, self.options.concurrency or 16)
        scores = [self._stood(standings[n]) if isinstance(text, str) else text for n, text in enumerate(readings)]
        seconds = (time.perf_counter() - start) / max(len(scores), 1)
        return [score.model_copy(update={"grader": self.grader, "seconds": seconds}) for score in scores]

    def _read(self, completion: Completion) -> str | Score:
        return read(completion, self.options.reads, self.options.cut_off, self.options.max_chars)

    def _deadline(self) -> float:
        return time.monotonic() + self.options.total_s

    def _ask(
        self, prompt: Prompt, reference: JudgeReference, texts: Mapping[str, str], deadline: float
    ) -> tuple[Verdict, Spent]:
        options = self.options
        rubric = reference.rubric.strip() or options.rubric.strip()
        if options.mode == "rubric":
            rubric = f"{rubric}\n\nThe scale goes from {options.scale[0]} (worst) to {options.scale[1]} (best)."
        plain = {"rubric": f"What matters: {rubric}" if rubric and options.mode != "rubric" else rubric}
        quotes = {"question": conversation(prompt.messages), "reference": reference.answer, **texts}
        user = compose(options.template or TEMPLATES[options.mode], quotes, plain)
        system = options.instructions or INSTRUCTIONS[options.mode]
        return ask(options, system, user, form_of(options.mode, options.scale), deadline)

    def _meet(self, prompt: Prompt, reference: JudgeReference, one: str, other: str) -> Meeting:
        deadline = self._deadline()
        return meet(one, other, lambda a, b: self._ask(prompt, reference, {"first": a, "second": b}, deadline))

    def _meet_in_group(self, prompt: Prompt, reference: JudgeReference, one: str, other: str) -> Meeting:
        try:
            return self._meet(prompt, reference, one, other)
        except RefusedRequest as error:  # whose text it was, nobody can tell
            raise EnvironmentFailure("backend", f"judge: a comparison was refused: {error}") from None

    def _graded(self, verdict: Verdict, spent: Spent) -> Score:
        reason = _short(verdict.reasoning)
        extra = components(spent, self.options)
        if isinstance(verdict.value, str):
            score = Score.correct(reason=reason) if verdict.value == "same" else Score.incorrect(reason=reason)
        else:
            low, high = self.options.scale
            score = _by_reward((verdict.value - low) / (high - low), reason)
            extra = {"grade": float(verdict.value), **extra}
        return score.model_copy(update={"components": extra})

    def _compared(self, meeting: Meeting) -> Score:
        extra = {"orders_agree": float(meeting.agree), **components(meeting.spent, self.options)}
        return _by_reward(meeting.points, _short(meeting.reasoning)).model_copy(update={"components": extra})

    def _stood(self, standing: Standing | EnvironmentFailure) -> Score:
        if isinstance(standing, EnvironmentFailure):
            return standing.score()
        # Half of each meeting's cost, so that the group's sum is what was spent.
        cost = {name: None if value is None else value / 2 for name, value in components(standing.spent, self.options).items()}
        extra = {"orders_agree": standing.agree, **cost}
        reason = f"{standing.points * standing.opponents:g} points against {standing.opponents} others"
        return _by_reward(standing.points, reason).model_copy(update={"components": extra})


def _by_reward(reward: float, reason: str) -> Score:
    if reward >= 1.0:
        return Score.correct(reason=reason)
    return Score.partial(reward, reason=reason) if reward > 0.0 else Score.incorrect(reason=reason)


def _short(text: str) -> str:
    """Return a judge's reasoning on one line, cut short."""
    line = " ".join(text.split())
    return line if len(line) <= _REASON_CHARS else line[: _REASON_CHARS - 3] + "..."
