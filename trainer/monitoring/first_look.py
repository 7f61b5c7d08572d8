"""Examines the first samples of a run or an evaluation: can answers be read in them, and if not, what would help?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from verigym.envs.contract.base import Environment
from verigym.envs.contract.schema import Completion, Status
from verigym.envs.grading import Grader
from verigym.envs.option_trials import as_fields, best, try_options
from verigym.trainer.rollout.collect import UNREAD, Group
from verigym.trainer.tasks.answer_forms import missing_form
from verigym.trainer.tasks.mixture import Source

FEW = 8
"""With fewer scored completions, nothing is said to be wrong."""
TEXT_END = 120
MOSTLY = 0.5


def first_look(groups: Sequence[Group], sources: Iterable[Source], graders: Mapping[str, Grader]) -> list[str]:
    """Return lines about the first sampled groups: how many answers were read in each source, and advice if few or none were.

    Args:
        groups: groups with verdicts, such as those of the evaluation before the first step.
        sources: the mixture.
        graders: grader of each source, by label.
    """
    lines = ["first look:"]
    for source in sources:
        mine = [group for group in groups if group.source == source.label]
        if mine:
            lines += _of_source(source, mine, graders[source.label].workers)
    return lines if len(lines) > 1 else []


def _of_source(source: Source, groups: Sequence[Group], workers: int) -> list[str]:
    scored = [score for group in groups for score in group.scores if score.scored]
    unread = sum(score.status in UNREAD for score in scored)
    right = sum(score.status is Status.CORRECT for score in scored)
    cut = [cut for group in groups for cut in group.truncated]
    tokens = fmean(one.length for group in groups for one in group.generated)
    line = f"  {source.label}: an answer was read in {len(scored) - unread} of {len(scored)} texts, {right} right; "
    line += f"{tokens:.0f} tokens on average, {sum(cut)} of {len(cut)} texts were cut off"
    if len(scored) < FEW or (unread <= MOSTLY * len(scored) and right):
        return [line]
    advice = _advice(source.environment, groups, unread > MOSTLY * len(scored), workers)
    if sum(cut) > MOSTLY * len(cut):
        advice.append("most texts were cut off: raise max_new_tokens")
    if not right and not advice:
        advice.append("nothing was right: is the task too hard for this model, or the reference of another task?")
    return [line, f"    one of them ends: {_example(groups)!r}", *(f"    {said}" for said in advice)]


def _advice(environment: Environment, groups: Sequence[Group], mostly_unread: bool, workers: int) -> list[str]:
    found = []
    if (form := missing_form(environment, groups[0].prompt)) is not None:
        found.append(
            f"the environment reads {form.marker}, and the prompt does not ask for it: set `template: {form.template}`"
        )
    if any(group.episodes for group in groups):  # other options cannot be tried on texts that a session answered
        return found
    pairs = [
        (group.prompt, Completion(text=text, finish_reason="length" if cut else "stop"))
        for group in groups
        for text, cut, score in zip(group.texts, group.truncated, group.scores, strict=True)
        if score.scored and (not mostly_unread or score.status in UNREAD)
    ]
    trials = try_options(environment, pairs, workers)
    proposed = best(trials if mostly_unread else [trial for trial in trials if trial.right])
    if proposed is not None:
        said = f"with `{as_fields(proposed.change)}`, an answer is read in {proposed.read} of {proposed.texts} such texts"
        found.append(f"{said}, {proposed.right} right")
    return found


def _example(groups: Sequence[Group]) -> str:
    for group in groups:
        for text, score in zip(group.texts, group.scores, strict=True):
            if score.status in UNREAD and text.strip():
                return text[-TEXT_END:]
    return groups[0].texts[0][-TEXT_END:]
