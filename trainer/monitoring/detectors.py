"""Detectors of failing training, one class each: dead runs, divergence, length drift, reward hacks, broken graders.

A detector reads the rows of metrics.jsonl in order, and its state depends on nothing else. So a resumed run restores the state
by replaying the rows that were written before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Protocol

FIRST = 10
"""The initial value of a metric is its median over so many steps at the beginning of a run."""
RECENT = 9
"""The present value of a metric is its median over so many latest steps, so that one odd batch raises no alarm."""
LENGTH_KEPT = 2 / 3
"""A jump of the reward is suspicious if the median length of completions falls below this share of its earlier value."""
FEW_STEPS = 5
"""Steps before a warning about the beginning of a run."""
MOSTLY = 0.5
EQUAL = 1e-6
"""Rewards that differ by less count as equal."""

MetricsRow = Mapping[str, Any]


@dataclass(frozen=True)
class Alarm:
    """One warning about a run."""

    name: str
    step: int
    since: int
    """First step of the condition."""
    seen: str
    advice: str
    stop: bool = False
    """Whether the run must not go on."""
    sources: tuple[str, ...] = ()
    """Labels of the sources that the alarm is about; empty if it is about the run as a whole."""

    @property
    def text(self) -> str:
        """Return the warning as one line for the console."""
        return f"step {self.step}: {self.name}: {self.seen}, since step {self.since}; {self.advice}"

    @property
    def row(self) -> dict[str, Any]:
        """Return the warning as a row of metrics.jsonl."""
        return {"kind": "warning", **asdict(self)}


class Detector(Protocol):
    """Interface of the detectors, which look for one problem in a run's metrics.

    `update` must get the row of every step, in order. A detector reports its problem for as long as it lasts.
    """

    def update(self, row: MetricsRow) -> Alarm | None:
        """Return the alarm for the step of `row`, or None if there is no problem.

        While the same problem lasts, the same alarm is returned.
        """


class _FirstStep:
    """Remembers the step since which a condition has held without interruption."""

    def __init__(self) -> None:
        self.step: int | None = None

    def update(self, holds: bool, step: int) -> int | None:
        self.step = (self.step or step) if holds else None
        return self.step


class DeadRun:
    """Detects that rewards have no effect: no trained completion has an advantage, or the gradient is exactly 0.

    The usual cause is that the rewards in every group are equal. Equal rewards alone raise no alarm, because a gradient can
    still come from replayed groups, from rewards of single steps or components, or from advantages that compare completions
    across groups. The gradient of a KL or an entropy bonus does not count, because it does not come from a reward. With a
    critic, equal rewards in the whole step also raise the alarm, because the advantages are then only the critic's errors,
    scaled up by whitening.
    """

    def __init__(self, steps: int, stop: bool) -> None:
        self.steps, self.stop, self.since = steps, stop, _FirstStep()

    def update(self, row: MetricsRow) -> Alarm | None:  # noqa: D102
        spread = row.get("reward_spread")  # of a run with a critic
        alike = spread is not None and spread < EQUAL
        untaught = row.get("rows_with_advantage") == 0
        flat = alike if spread is not None else row.get("groups_without_signal") == 1
        since = self.since.update(alike or untaught or row.get("grad_norm", 0) == 0, row["step"])
        if since is None or row["step"] - since + 1 < self.steps:
            return None
        reward, accuracy = row.get("reward"), row.get("accuracy")
        if reward is None:
            seen = "no completion gets a verdict"
            advice = "see the reasons in samples.jsonl; `verigym check` tests an environment"
        elif flat and accuracy == 1:
            seen = "every completion is right"
            advice = "give harder tasks, or stop: there is nothing left to learn here"
        elif flat:
            where = "of the step" if alike else "within a group"
            seen = f"all rewards {where} are equal (mean {reward:.3g}, accuracy {accuracy or 0:.3g})"
            advice = "give easier tasks, a larger group_size, a higher temperature or a reward with more levels"
        else:
            seen = "no completion that is trained on has an advantage" if untaught else "the gradient is exactly 0"
            advice = "see trained_rows and clip_fraction: masks or clipping may leave nothing to train on"
        return Alarm("dead_run", row["step"], since, f"no reward has given a gradient: {seen}", advice, self.stop)


class NotFinite:
    """Detects updates that were skipped because a loss or a gradient was not finite (null in the log). Its alarm stops the run.

    The loss and gradient of the critic count as well.
    """

    def __init__(self, steps: int) -> None:
        self.steps, self.since = steps, _FirstStep()

    def update(self, row: MetricsRow) -> Alarm | None:  # noqa: D102
        watched = ("loss", "grad_norm", "value_loss", "critic_grad_norm")
        names = [name for name in watched if name in row and row[name] is None]
        since = self.since.update(bool(names), row["step"])
        if since is None or row["step"] - since + 1 < self.steps:
            return None
        seen = f"loss or gradient is not finite ({', '.join(names)}) for {self.steps} steps in a row"
        advice = (
            "see bad_batches/; lower the learning rate or max_grad_norm, use dtype fp32, or look for nan in the model's weights"
        )
        return Alarm("not_finite", row["step"], since, seen, advice, stop=True)


class Drift:
    """Detects a metric whose recent median has left a range around its median in the first steps."""

    def __init__(self, name: str, metric: str, floor: float, ceiling: float, low_advice: str, high_advice: str) -> None:
        self.name, self.metric, self.floor, self.ceiling = name, metric, floor, ceiling
        self.advice = (low_advice, high_advice)
        self.first: list[float] = []
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.since = _FirstStep()

    def update(self, row: MetricsRow) -> Alarm | None:  # noqa: D102
        value = row.get(self.metric)
        if value is None:
            return None
        if len(self.first) < FIRST:
            self.first.append(value)
            return None
        self.recent.append(value)
        was, now = median(self.first), median(self.recent)
        low, high = now < self.floor * was, now > self.ceiling * was > 0
        since = self.since.update(len(self.recent) == RECENT and (low or high), row["step"])
        if since is None:
            return None
        seen = f"{self.metric} is {now:.3g}, {now / was:.2g} times the {was:.3g} of the first {FIRST} steps"
        return Alarm(self.name, row["step"], since, seen, self.advice[high])


class NoAnswer:
    """Detects that most completions of a source have no readable answer, often because of a wrong format or truncation."""

    def __init__(self, share: float = MOSTLY) -> None:
        self.share = share
        self.recent: dict[str, deque[float]] = {}
        self.since = _FirstStep()

    def update(self, row: MetricsRow) -> Alarm | None:  # noqa: D102
        for name, value in row.items():
            if name.endswith("no_answer") and not name.endswith("status/no_answer") and value is not None:
                self.recent.setdefault(name.removesuffix("no_answer"), deque(maxlen=RECENT)).append(value)
        mostly = {
            prefix: median(recent)
            for prefix, recent in self.recent.items()
            if len(recent) >= FEW_STEPS and median(recent) > self.share
        }
        mostly = {prefix: value for prefix, value in mostly.items() if prefix or len(mostly) == 1}
        since = self.since.update(bool(mostly), row["step"])
        if since is None:
            return None
        finding = ", ".join(f"{value:.0%} of the completions{_of(prefix)}" for prefix, value in mostly.items())
        cut = max(row.get(f"{prefix}truncated") or 0.0 for prefix in mostly)
        advice = "does the prompt ask for the form that the environment reads, and would one of its options read these?"
        if cut > self.share:
            advice = f"{cut:.0%} are cut off: raise max_new_tokens"
        return Alarm("no_answer", row["step"], since, f"no answer was found in {finding}", advice, sources=_labels(*mostly))


class EqualSinceTheStart:
    """Detects that all completions of a source so far got the same reward: usually 0, because none was correct."""

    def __init__(self) -> None:
        self.rewards: dict[str, list[float]] = {}
        self.different: set[str] = set()
        self.wrong: set[str] = set()
        self.since = _FirstStep()

    def update(self, row: MetricsRow) -> Alarm | None:  # noqa: D102
        for name, value in row.items():
            if name.rpartition("/")[2] != "groups_without_signal":
                continue
            prefix = name.removesuffix("groups_without_signal")
            reward = row.get(f"{prefix}reward")
            if reward is None:
                continue
            seen = self.rewards.setdefault(prefix, [])
            seen.append(reward)
            right = row.get(f"{prefix}accuracy")
            # If components or steps are rewarded separately, equal totals can still have advantages.
            taught = not prefix and row.get("rows_with_advantage", 0) > 0
            if value != 1 or taught or right not in (0, 1) or abs(reward - seen[0]) > EQUAL:
                self.different.add(prefix)
            if not right:
                self.wrong.add(prefix)
        equal = [prefix for prefix, seen in self.rewards.items() if len(seen) >= FEW_STEPS and prefix not in self.different]
        equal = [prefix for prefix in equal if prefix or len(equal) == 1]
        since = self.since.update(bool(equal), row["step"])
        if since is None:
            return None
        wrong = [prefix for prefix in equal if prefix in self.wrong]
        about = wrong or equal
        rewards = ", ".join(sorted({f"{self.rewards[prefix][0]:.3g}" for prefix in about}))
        finding = f"every completion{_of(*about)} so far has got the reward {rewards}"
        kind, what, advice = "equal_rewards", f"{finding}, all are right", "give harder tasks"
        if wrong:
            kind, what = "nothing_right", f"{finding}, and none was right"
            advice = (
                "where these look like their golds, the model cannot do the tasks yet: train it before, or give easier ones; "
                "else, is the gold in the right field and written as answers are? `verigym check` and `validate` try the golds"
            )
        return Alarm(kind, row["step"], since, what, advice, sources=_labels(*about))


def _labels(*prefixes: str) -> tuple[str, ...]:
    return tuple(prefix.removesuffix("/") for prefix in prefixes if prefix)


def _of(*prefixes: str) -> str:
    labels = ", ".join(_labels(*prefixes))
    return f" of {labels}" if labels else ""


class RewardJump:
    """Detects a reward that rises suddenly while completions become shorter: often a reward hack."""

    def __init__(self, jump: float) -> None:
        self.jump = jump
        self.seen: deque[tuple[float, float]] = deque(maxlen=2 * RECENT)
        self.since = _FirstStep()

    def update(self, row: MetricsRow) -> Alarm | None:  # noqa: D102
        reward, tokens = row.get("reward"), row.get("completion_tokens")
        if reward is None or tokens is None:
            return None
        self.seen.append((reward, tokens))
        if len(self.seen) < 2 * RECENT:
            return None
        rewards, lengths = zip(*self.seen, strict=True)
        before, after = median(rewards[:RECENT]), median(rewards[RECENT:])
        long, short = median(lengths[:RECENT]), median(lengths[RECENT:])
        since = self.since.update(after - before >= self.jump and short < LENGTH_KEPT * long, row["step"])
        if since is None:
            return None
        seen = f"the reward rose from {before:.3g} to {after:.3g} while completions went from {long:.3g} to {short:.3g} tokens"
        advice = "read the latest completions in samples.jsonl: is the task solved, or the verifier fooled?"
        return Alarm("reward_jump", row["step"], since, seen, advice)


class Unscored:
    """Detects many completions without a verdict.

    In these cases the grader failed, not the model. The policy may still learn to provoke failures, as they cost no reward.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.first: list[float] = []
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.since = _FirstStep()

    def update(self, row: MetricsRow) -> Alarm | None:  # noqa: D102
        if not row.get("completions"):
            return None
        share = row.get("unscored", 0) / row["completions"]
        if len(self.first) < FIRST:
            self.first.append(share)
        self.recent.append(share)
        now = median(self.recent)
        since = self.since.update(len(self.recent) == RECENT and now > self.share, row["step"])
        if since is None:
            return None
        seen = f"{now:.0%} of the completions get no verdict; {median(self.first):.0%} in the first steps"
        advice = "samples.jsonl has the reasons; a rising share may be a policy that breaks its verifier"
        return Alarm("unscored", row["step"], since, seen, advice)


class BrokenGrader:
    """Detects that a source's own judge raises exceptions on many completions; see `grader_bugs`."""

    def __init__(self, stop: bool) -> None:
        self.stop, self.since = stop, _FirstStep()

    def update(self, row: MetricsRow) -> Alarm | None:  # noqa: D102
        broken = sorted(name.removesuffix("/grader_broken") for name in row if name.endswith("/grader_broken"))
        since = self.since.update(bool(broken), row["step"])
        if since is None:
            return None
        seen = f"the judge of {', '.join(broken)} raises on many completions (broken_grader_share); those are unscored"
        advice = "the warnings named judge_exception say where; mend it, or declare `hardened = True`"
        return Alarm("broken_grader", row["step"], since, seen, advice, self.stop, tuple(broken))


class NoVerdict:
    """Detects that a source has never given a verdict; see `grader_bugs`."""

    def __init__(self, stop: bool) -> None:
        self.stop, self.since = stop, _FirstStep()

    def update(self, row: MetricsRow) -> Alarm | None:  # noqa: D102
        silent = sorted(name.removesuffix("/no_verdict") for name in row if name.endswith("/no_verdict"))
        since = self.since.update(bool(silent), row["step"])
        if since is None:
            return None
        seen = f"not one completion of {', '.join(silent)} has got a verdict since the run began"
        advice = "samples.jsonl has the reasons; mend it and try it with `verigym check`"
        return Alarm("no_verdict", row["step"], since, seen, advice, self.stop)


class LogprobMismatch:
    """Detects that the trainer and the sampler give different log-probabilities to the same tokens.

    The policy that is trained is then not the policy that sampled.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.since = _FirstStep()

    def update(self, row: MetricsRow) -> Alarm | None:  # noqa: D102
        gap = row.get("logprob_mismatch")
        if gap is None:
            return None
        self.recent.append(gap)
        now = median(self.recent)
        since = self.since.update(len(self.recent) == RECENT and now > self.limit, row["step"])
        if since is None:
            return None
        seen = f"log-probabilities at sampling and in training differ by {now:.3g} nats a token"
        advice = "use the same dtype for both, fp32 if need be, or set a `correction`"
        return Alarm("logprob_mismatch", row["step"], since, seen, advice)
