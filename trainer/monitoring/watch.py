"""Runs all detectors over a run's metrics. Each warning says what is wrong, since which step, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt
from verigym.trainer.config.monitoring import MonitoringFields
from verigym.trainer.monitoring.detectors import (
    Alarm,
    BrokenGrader,
    DeadRun,
    Detector,
    Drift,
    EqualSinceTheStart,
    LogprobMismatch,
    MetricsRow,
    NoAnswer,
    NotFinite,
    NoVerdict,
    RewardJump,
    Unscored,
)
from verigym.trainer.rollout.collect import UNREAD, Group, gold_text

TEXTS = 3
TEXT_END = 60


class Watch:
    """Runs all detectors on a run's metrics and decides which alarms to report.

    The same warning is reported again only after `every` steps, unless it stops the run.
    """

    def __init__(self, detectors: Sequence[Detector], every: int) -> None:
        self.detectors, self.every = tuple(detectors), every
        self.last_reported: dict[str, int] = {}

    def update(self, row: MetricsRow) -> list[Alarm]:
        """Return the alarms to report after the step of `row`, a row of metrics.jsonl with kind `train`."""
        alarms = [alarm for detector in self.detectors if (alarm := detector.update(row))]
        due = [
            alarm
            for alarm in alarms
            if alarm.stop or row["step"] - self.last_reported.get(alarm.name, -self.every) >= self.every
        ]
        self.last_reported.update({alarm.name: alarm.step for alarm in due})
        return due


class Past(NamedTuple):
    """What a resumed run has to know of its earlier steps."""

    watch: Watch
    """The watch, whose detectors have read the rows of all earlier steps."""
    first_length: float
    """Mean tokens of a completion in the first step; 0 if there was none."""
    evaluated: frozenset[int]
    """Steps after which there was an evaluation."""


def read_past(config: MonitoringFields, history: Iterable[MetricsRow]) -> Past:
    """Read the rows of metrics.jsonl once, in their order. No alarm of an earlier step is reported again."""
    watch, first, evaluated = build_watch(config), 0.0, set()
    for row in history:
        if row["kind"] == "train":
            first = first or row.get("completion_tokens") or 0.0
            watch.update(row)
        elif row["kind"] == "eval":
            evaluated.add(row["step"])
    return Past(watch, first, frozenset(evaluated))


def build_watch(config: MonitoringFields) -> Watch:
    """Return the watch that `config` describes, at the beginning of a run."""
    return Watch(
        [
            DeadRun(config.dead_run_steps, stop=config.on_dead_run == "stop"),
            NotFinite(config.max_bad_steps),
            Drift(
                "sampled_nll",
                "sampled_nll",
                config.sampled_nll_floor,
                config.sampled_nll_ceiling,
                "the policy hardly explores any more: lower learning_rate, raise clip_high or temperature, or set kl_coef",
                "the policy comes apart: go back to an earlier checkpoint and lower learning_rate, or set kl_coef",
            ),
            Drift(
                "length",
                "completion_tokens",
                config.length_floor,
                config.length_ceiling,
                "read samples.jsonl: thoughts may have been given up; add a length reward or kl_coef",
                "read samples.jsonl for repetition; see `truncated`, try aggregation fixed_length or an overlong penalty",
            ),
            NoAnswer(),
            EqualSinceTheStart(),
            RewardJump(config.reward_jump),
            Unscored(config.unscored_share),
            BrokenGrader(stop=config.on_broken_grader == "stop"),
            NoVerdict(stop=config.on_broken_grader == "stop"),
            LogprobMismatch(config.logprob_mismatch_limit),
        ],
        config.warn_every,
    )


def with_texts(alarm: Alarm, groups: Sequence[Group]) -> Alarm:
    """Return `alarm`, with the ends of up to three completions added if it is about unreadable or wrong answers.

    Args:
        alarm: an alarm of a step.
        groups: the groups sampled in this step.
    """
    if alarm.name not in ("no_answer", "nothing_right"):
        return alarm
    seen = [
        (group, text)
        for group in groups
        if not group.canary and (not alarm.sources or group.source in alarm.sources)
        for text, score in zip(group.texts, group.scores, strict=True)
        if score.status in UNREAD or alarm.name != "no_answer"
    ]
    # Of different prompts, if possible.
    seen = list({id(group): (group, text) for group, text in seen}.values())[:TEXTS]
    ends = [repr(text.rstrip()[-TEXT_END:]) + _against(group.prompt) for group, text in seen]
    return replace(alarm, seen=f"{alarm.seen}. Some end in: {'; '.join(ends)}") if ends else alarm


def _against(prompt: Prompt) -> str:
    gold = gold_text(prompt)
    return f" (gold {gold[:TEXT_END]!r})" if gold else ""


def report_alarms(alarms: Sequence[Alarm], say: Callable[[str], None], record: Callable[[Mapping[str, Any]], None]) -> None:
    """Print and record the alarms.

    Args:
        alarms: the alarms of one step.
        say: prints a line.
        record: writes a row of metrics.jsonl.

    Raises:
        UsageError: one of the alarms stops the run.
    """
    for alarm in alarms:
        say(alarm.text)
        record(alarm.row)
    for alarm in alarms:
        if alarm.stop:
            raise UsageError(f"training stopped at {alarm.text}")
