"""The `process` environment: a reward for each step of a solution, and one for the whole, by default that of its worst step.

The steps are judged by recomputing the arithmetic that they state, or by a process reward model. Neither checks the final
answer, so combine this environment, by a sum or a `Gate`, with one that does. PURE (arXiv 2504.15275) trains best that way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score, Status, StepScore
from verigym.envs.model_fingerprint import fingerprint, named_after
from verigym.envs.process import models
from verigym.envs.process.aggregate import Aggregation, aggregate
from verigym.envs.process.arithmetic import TooMuchArithmetic, verify
from verigym.envs.process.conventions import CONVENTIONS, Convention, TooLong
from verigym.envs.process.models import Device, Dtype
from verigym.envs.process.steps import Ends, Span, Splitting, split
from verigym.envs.trained_options import refuse_other_options


class ProcessReference(Reference):
    """Nothing: a step is judged by itself."""


class ProcessOptions(Options):
    """Who judges the steps, and how."""

    kind: Literal["arithmetic", "qwen", "shepherd", "tokens"] = "arithmetic"
    """`arithmetic` recomputes what steps state; the others are conventions of process reward models."""
    split: Splitting | Ends = "paragraphs"
    """Where steps end. `paragraphs`: at blank lines. `lines`: at line breaks. `numbered`: before numbered lines. `sentences`:
    after sentences. A list such as `[",", "</think>"]`: after each of these texts."""
    final_answer: bool = True
    """Whether the last step is also judged if it states the final answer. If false, such a step is left out."""
    aggregate: Aggregation = "min"
    """How the rewards of the steps are combined into the reward of the solution. `min`: the least. `product`: their product.
    `last`: the reward of the last step. `mean`: their mean. They are never summed."""
    unjudged: Literal["cap", "ignore"] = "cap"
    """Kind `arithmetic`: the effect of claims that could not be judged. `cap`: with n such claims in the solution, no reward
    exceeds 1 / (1 + n). `ignore`: such claims are counted, without effect on the rewards."""
    threshold: float = Field(0.5, ge=0, le=1)
    """A step with a lower reward is an error. The component `first_error` is the index of the first such step, from 0."""
    model: str | None = None
    """A local directory or hub id of the process reward model."""
    revision: str | None = None
    """The commit, if `model` is a hub id. Without it, verdicts may change when the model on the hub changes."""
    tag: str | None = None
    """The text that marks the end of each step, if the model was trained with another than its convention has. None: the
    convention's text."""
    system: str | None = None
    """Kind `qwen`: the system message for tasks that have none. Empty text: no system message. None: the system message of the
    convention."""
    positive: int = 1
    """The class that means a right step."""
    max_chars: int = Field(200_000, ge=1)
    """A longer solution is not read: the status is limit."""
    max_tokens: int | None = Field(None, ge=1)
    """Maximum number of tokens of task and solution together. None: the model's own maximum. A longer solution is not
    shortened; its status is limit."""
    device: Device = "auto"
    """Where the model runs; `auto` takes CUDA where there is one."""
    dtype: Dtype = "fp32"
    """Of the model's weights."""
    batch_size: int = Field(8, ge=1)
    """Most solutions in one forward pass of `score_batch`."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.kind != "arithmetic" and self.model is None:
            raise ValueError(f"kind={self.kind!r} needs a model: give model='directory or hub id'")
        if self.kind == "arithmetic" and self.model is not None:
            raise ValueError("kind='arithmetic' uses no model; leave model out, or name the model's convention as kind")
        if not self.split or not all(self.split):
            raise ValueError("split holds an empty text; give texts that end a step, or one of the names")
        if self.unjudged != "cap" and self.kind != "arithmetic":
            raise ValueError(f"unjudged is about kind='arithmetic'; a model of kind={self.kind!r} judges every step")
        if self.tag is not None and not self.tag:
            raise ValueError("tag is empty; give the text that stands after each step")
        if self.system is not None and self.kind != "qwen":
            raise ValueError(f"system is about kind='qwen'; kind={self.kind!r} shows no system message, so leave it out")
        if self.positive < 0:
            raise ValueError(f"positive={self.positive}; classes are counted from 0")
        return self


class ProcessEnvironment(BaseEnvironment[ProcessReference, ProcessOptions]):
    """Grades steps."""

    name = "process"
    version = "4"
    reference_type = ProcessReference
    options_type = ProcessOptions
    scores_steps = True
    # Steps are judged and not the answer: a trick about the answer is nothing to it.
    expected_verdicts = ExpectedVerdicts(hacks="free")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.options.kind != "arithmetic":  # what a model thinks of any text is its own affair
            self.expected_verdicts = ExpectedVerdicts(gold="free", garbage="free", hacks="free")  # type: ignore[misc]
            self.grades_groups = True
        self._weights = fingerprint(self.options.model)
        self._agreed = False
        self.grader = named_after(self.grader, self._weights)

    def examples(self) -> Sequence[Prompt]:
        """Return a task whose solution has steps."""
        return (self.prompt("Tom has 3 boxes of 4 pens and gets 5 more. How many pens has he?"),)

    def gold(self, prompt: Prompt) -> str | None:
        """Return a solution with right arithmetic, the same for all tasks; None if a model judges."""
        return "First, 3 * 4 = 12.\n\nThen 12 + 5 = 17." if self.options.kind == "arithmetic" else None

    def check(self) -> None:
        """Raise EnvironmentFailure if the model, or a package that it needs, is missing."""
        if self.options.kind != "arithmetic":
            self._model()

    def prepare(self) -> None:
        """Load the model, outside any item's time."""
        self.check()

    def judge(self, prompt: Prompt, reference: ProcessReference, completion: Completion) -> Score:
        """Cut the solution into steps and judge them."""
        spans, none = self._spans(prompt, completion)
        if none is not None:
            return none
        if self.options.kind == "arithmetic":
            return self._arithmetic(completion, spans)
        model = self._model()
        try:
            row = model.encode(prompt.messages, [span.of(completion.text) for span in spans])
        except TooLong as long:
            return Score.limit(reason=str(long))
        (rewards,) = model.probabilities([row])
        return self._scored(completion, spans, rewards, ["" for _ in spans])

    def score_group(self, prompt: Prompt, completions: Sequence[Completion | str]) -> list[Score]:
        """Judge the completions of one prompt as `score_batch` does."""
        return self.score_batch([(prompt, completion) for completion in completions])

    def score_batch(self, items: Sequence[tuple[Prompt, Completion | str]]) -> list[Score]:
        """Return the score of each solution, with `batch_size` of them in one forward pass.

        Scores equal those of `score` up to rounding.

        Raises:
            UsageError: a prompt was made by another environment.
        """
        wanted = [(prompt, Completion.of(completion)) for prompt, completion in items]
        if self.options.kind == "arithmetic":
            return [self.score(prompt, completion) for prompt, completion in wanted]
        rows: dict[int, Any] = {}
        try:
            model = self._model()
            for number, (prompt, completion) in enumerate(wanted):
                self.reference(prompt)
                spans, none = self._spans(prompt, completion)
                if none is None:
                    try:
                        rows[number] = model.encode(prompt.messages, [span.of(completion.text) for span in spans])
                    except (TooLong, ValueError, EnvironmentFailure):
                        continue  # `score` words the verdict
            probabilities = dict(
                zip(rows, model.probabilities(list(rows.values()), batch_size=self.options.batch_size), strict=True)
            )
        except EnvironmentFailure:
            probabilities = {}
        return [self._one_of_batch(prompt, completion, probabilities.get(n)) for n, (prompt, completion) in enumerate(wanted)]

    def _one_of_batch(self, prompt: Prompt, completion: Completion, rewards: list[float] | None) -> Score:
        if rewards is None:
            return self.score(prompt, completion)
        spans, _ = self._spans(prompt, completion)
        score = self._scored(completion, spans, rewards, ["" for _ in spans])
        return score.model_copy(update={"grader": self.grader})

    def _spans(self, prompt: Prompt, completion: Completion) -> tuple[list[Span], Score | None]:
        """Return the steps to judge, or the verdict where there is none."""
        text = completion.text
        cut_off = completion.cut_off
        if text.strip() and text.strip() in prompt.text:
            return [], Score.no_answer(reason="the completion is a part of the task")
        if len(text) > self.options.max_chars:
            reason = f"the solution has {len(text)} characters, over {self.options.max_chars} (max_chars)"
            return [], Score.limit(reason=reason)
        spans = split(text, self.options.split, answer=self.options.final_answer)
        if cut_off and spans and spans[-1].end == len(text):
            spans = spans[:-1]  # half a step is neither right nor wrong
        if spans:
            return spans, None
        if cut_off:
            return [], Score.truncated(reason="cut off by the token limit before the first step was complete")
        what = "only a final answer" if text.strip() else "the completion is empty"
        return [], Score.no_answer(reason=f"no step to judge: {what}")

    def _arithmetic(self, completion: Completion, spans: Sequence[Span]) -> Score:
        try:
            verdicts = verify([span.of(completion.text) for span in spans])
        except TooMuchArithmetic as much:
            return Score.limit(reason=f"the solution states {much}")
        unjudged = sum(verdict.unjudged for verdict in verdicts)
        checked = [(span, verdict) for span, verdict in zip(spans, verdicts, strict=True) if verdict.claims]
        if not checked:
            if completion.cut_off:
                return Score.truncated(reason="cut off by the token limit before any arithmetic was stated")
            seen = f"; {unjudged} claims could not be judged" if unjudged else ""
            return Score.no_answer(reason=f"no step states arithmetic that can be recomputed{seen}")
        rewards = [float(not verdict.wrong) for _, verdict in checked]
        reasons = [verdict.wrong for _, verdict in checked]
        return self._scored(completion, [span for span, _ in checked], rewards, reasons, spans, unjudged)

    def _scored(
        self,
        completion: Completion,
        spans: Sequence[Span],
        rewards: Sequence[float],
        reasons: Sequence[str],
        every: Sequence[Span] | None = None,
        unjudged: int | None = None,
    ) -> Score:
        """Make the verdict of the steps' rewards.

        Args:
            completion: the solution.
            spans: of the steps that were judged.
            rewards: theirs, in [0, 1].
            reasons: what is wrong with each, or nothing.
            every: all steps, where some could not be judged.
            unjudged: claims that could not be judged, where steps make claims.
        """
        # One claim that nobody can check is worth a toss of a coin, and right claims beside it do not make it surer.
        most = 1 / (1 + unjudged) if unjudged and self.options.unjudged == "cap" else 1.0
        numbers = {span: number for number, span in enumerate(every or spans)}
        steps = tuple(
            StepScore(start=span.start, end=span.end, reward=min(reward, most), reason=reason)
            for span, reward, reason in zip(spans, rewards, reasons, strict=True)
        )
        components: dict[str, float | None] = {"steps": float(len(numbers)), "judged": float(len(spans)), "min": min(rewards)}
        bad = next((place for place, reward in enumerate(rewards) if reward < self.options.threshold), None)
        reason = f"no error in {len(spans)} steps"
        if bad is not None:
            components["first_error"] = float(numbers[spans[bad]])
            reason = f"step {numbers[spans[bad]] + 1} of {len(numbers)}: {reasons[bad] or f'{rewards[bad]:.3g}'}"
        if unjudged is not None:
            components["unjudged"] = float(unjudged)
        if unjudged:
            reason += f"; {unjudged} claims could not be judged"
        reward = min(aggregate(rewards, self.options.aggregate), most)
        if completion.cut_off:
            score = Score.truncated(reason=f"cut off by the token limit; {reason}")
        else:
            status = Status.CORRECT if reward == 1 else Status.PARTIAL if reward > 0 else Status.INCORRECT
            score = Score(reward=reward, status=status, reason=reason)
        return score.model_copy(update={"components": components, "steps": steps})

    def _model(self) -> models.StepModel:
        options = self.options
        if options.kind == "arithmetic" or options.model is None:
            raise ValueError("kind='arithmetic' has no model")
        if not self._agreed:
            refuse_other_options(options.model, options)
            self._agreed = True
        own = CONVENTIONS[options.kind]
        system = own.system if options.system is None else options.system or None
        return models.load(
            models.Source(
                convention=Convention(options.kind, options.tag or own.tag, system),
                model=options.model,
                revision=options.revision,
                device=options.device,
                dtype=options.dtype,
                positive=options.positive,
                max_tokens=options.max_tokens,
                weights=self._weights,
            )
        )
