"""Math-Shepherd (2312.08935): a step is labelled good if completions from it still reach a correct answer.

After each step, the policy completes the solution K times (roll-outs), and an environment grades the whole solutions. The hard
estimate of the step's label is 1 if any of them is right, the soft estimate is the share of right ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, Prompt, Score, Status, sha256_hex
from verigym.envs.grading import Grader
from verigym.envs.process.steps import Ends, Span, Splitting, split
from verigym.trainer.engines.base import Engine, Generated
from verigym.trainer.models.codec import Codec
from verigym.trainer.reward_models.labelled_solutions import Estimate, LabelledSolution, estimates


@dataclass(frozen=True)
class StepOutcomes:
    """The results of the roll-outs from each step of a solution."""

    prompt: Prompt
    text: str
    spans: tuple[Span, ...]
    right: tuple[int, ...]
    """Of each step: how many of the scored rollouts were right."""
    scored: tuple[int, ...]
    """Of each step: how many rollouts have a verdict."""
    unscored: int = 0
    """How many rollouts of all steps together have no verdict, because the verifier failed."""

    def labels(self, how: Estimate = "hard") -> tuple[float | None, ...]:
        """Return the label of each step, estimated as `how` says; None for a step none of whose roll-outs has a verdict."""
        return estimates(self.right, self.scored, how)

    def labelled(self, how: Estimate = "hard") -> LabelledSolution:
        """Return the solution with its labels, in the form that the training of a process reward model takes."""
        return LabelledSolution(self.prompt, tuple(span.of(self.text) for span in self.spans), self.labels(how))


def roll_out(
    engine: Engine,
    codec: Codec,
    grader: Grader,
    solutions: Sequence[tuple[Prompt, str]],
    *,
    samples: int,
    max_new_tokens: int,
    temperature: float = 1.0,
    how: Splitting | Ends = "paragraphs",
    seed: int = 0,
) -> list[StepOutcomes]:
    """Estimate the quality of each step of `solutions` by roll-outs: sampled completions that continue after the step.

    The last step has only one roll-out, the solution itself, because nothing is left to write after it. A roll-out without a
    verdict is counted only in `unscored`. The samples depend on the seed, the task, the solution, the step and the sample's
    number, and not on the other solutions in the call.

    Args:
        engine: samples from the policy; its weights must be up to date (`Engine.sync`).
        codec: the policy's tokenizer.
        grader: grades whole solutions.
        solutions: (task, text of the solution); a solution without steps is returned without outcomes.
        samples: K, completions per step.
        max_new_tokens: most tokens of a completion.
        temperature: temperature of sampling.
        how: how steps are split; see `envs/process/steps.py`.
        seed: key of the randomness.

    Raises:
        UsageError: `samples` is less than 1.
    """
    if samples < 1:
        raise UsageError(f"samples={samples}: give at least 1 completion a step")
    spans = [split(text, how) for _, text in solutions]
    # A step of solution i that is not its last: what has been written when it ends.
    places = [(i, step) for i, found in enumerate(spans) for step in range(len(found) - 1)]
    prefixes = [solutions[i][1][: spans[i][step].end] for i, step in places]
    futures: dict[tuple[int, int], list[Future[Score]]] = {
        (i, step): [] for i, found in enumerate(spans) for step in range(len(found))
    }
    for i, (prompt, text) in enumerate(solutions):
        if spans[i]:
            futures[i, len(spans[i]) - 1].append(grader.submit(prompt, Completion(text=text, finish_reason="stop")))

    def grade(number: int, sample: int, done: Generated) -> None:
        text = prefixes[number] + codec.decode(done.token_ids)
        completion = Completion(text=text, finish_reason=done.finish_reason)
        futures[places[number]].append(grader.submit(solutions[places[number][0]][0], completion))

    if places:
        keys = [("step labels", seed, solutions[i][0].key, sha256_hex(solutions[i][1]), step) for i, step in places]
        engine.generate(
            [
                (*(ids := codec.encode(solutions[i][0])), *codec.encode_completion(ids, prefix))
                for (i, _), prefix in zip(places, prefixes, strict=True)
            ],
            [[(*key, sample) for sample in range(samples)] for key in keys],
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            on_finished=grade,
        )
    verdicts = {
        place: [one for one in (future.result() for future in waiting) if one.scored] for place, waiting in futures.items()
    }
    return [
        StepOutcomes(
            prompt,
            text,
            tuple(spans[i]),
            right=tuple(sum(one.status is Status.CORRECT for one in verdicts[i, step]) for step in range(len(spans[i]))),
            scored=tuple(len(verdicts[i, step]) for step in range(len(spans[i]))),
            unscored=sum(len(futures[i, step]) - len(verdicts[i, step]) for step in range(len(spans[i]))),
        )
        for i, (prompt, text) in enumerate(solutions)
    ]
