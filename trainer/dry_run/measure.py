"""Measures small steps of a run, with the run's own code and fewer prompts and tokens. Nothing is written."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import torch

from verigym.datasets_cfg.load import RowError
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Score
from verigym.envs.grading import Grader
from verigym.envs.sessions import Sessions
from verigym.trainer.advantages.gae import whole_reward
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.rows import Credit
from verigym.trainer.dry_run.formulas import Decoding, Kept
from verigym.trainer.dry_run.kept import measure_kept
from verigym.trainer.dry_run.speed import Speed, Tokens, attended, decoding_costs
from verigym.trainer.engines.base import tokens_reported
from verigym.trainer.engines.native.cuda_graphs import wants_graphs
from verigym.trainer.engines.native.decoders import decodable
from verigym.trainer.engines.native.llama_step import LlamaStep
from verigym.trainer.learner.update import forward_options
from verigym.trainer.logprobs.forward import ForwardOptions, autocast, rows_reported
from verigym.trainer.loop import Run
from verigym.trainer.monitoring.first_look import first_look
from verigym.trainer.rollout.collect import Group
from verigym.trainer.tasks.mixture import Source, shares_of

WARM_UP_TOKENS = 8
"""Most tokens of a completion in the first small step, which loads kernels."""
MEASURED_TOKENS = 48
"""Most tokens of a completion in the second small step, and least number for the limit in the last one."""
BATCH_TOKENS = 6
"""Tokens of a completion when as many are sampled at the same time as in the run."""
MEASURE_S = 8.0
"""About how long the largest measured update may take, and the sampling of a whole batch."""
LENGTHS_S = 20.0
"""About how long completions are sampled to see how long they become."""
PROMPTS_MEASURED = 16
"""Prompts of each source whose length is measured."""
TELL_S = 10.0
"""Seconds between two messages about the progress of a part."""

Tell = Callable[[str], None]

T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """The figures measured in the small steps."""

    speed: Speed
    kept: Kept
    decoding: Decoding
    completions: tuple[int, ...]
    """Lengths in tokens."""
    truncated: tuple[bool, ...]
    """Of each completion, whether it was cut off."""
    grading_s: float
    """Mean seconds of one verdict."""
    prompts: tuple[tuple[int, ...], ...]
    """For each source, the lengths of a few prompts in tokens."""
    look: tuple[str, ...]
    """What the texts of the last small step show; see `first_look`."""
    waiting: float
    """Share of the time in which this process waited for a core that others used; 0 if the system does not say."""


def measure(
    config: TrainConfig,
    sources: Sequence[Source],
    graders: Mapping[str, Grader],
    sessions: Mapping[str, Sessions],
    tell: Tell = lambda line: None,
) -> Measured:
    """Run three small steps with the run's own model, sources and settings, and sample a few tokens of a whole batch.

    Completions are always sampled by the native engine: to measure with servers, the policy's weights would have to be pushed
    to them. All completions count as correct and are trained on with an advantage of 1, so that no update is skipped.

    Args:
        config: the run.
        sources: the mixture.
        graders: grader of each source, by label.
        sessions: sessions of each source that has episodes, by label.
        tell: called with a line of text about what is measured.
    """
    group, begun, waited = config.group_size, time.monotonic(), _waited_s()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(_small(config, Path(folder), 1, config.max_new_tokens), sources, graders, sessions=sessions)
        run.learner.credit = {source.label: Credit(whole_reward) for source in sources}
        prompts = _prompts(run, sources)
        steps = _SmallSteps(config, Path(folder), run, tell)
        tell(f"1 of 4: a first step with {group} completions of {WARM_UP_TOKENS} tokens")
        steps.run_step(0, 1, WARM_UP_TOKENS)
        models = [run.learner.model, *([run.learner.critic.model] if run.learner.critic else [])]
        how = ForwardOptions(temperature=config.temperature, **forward_options(config, run.codec.pad_id, config.dtype))
        kept = measure_kept(models, how, run.positions or 2**62)
        decoding = _decoding(run, config)
        tell(f"2 of 4: a step with {group} completions of {MEASURED_TOKENS} tokens")
        small = steps.run_step(1, 1, MEASURED_TOKENS)
        prefill_s, prefilled = steps.sample_batch(prompts)
        count, limit = steps.affordable()
        tell(f"4 of 4: a step with {count * group} completions of up to {limit:,} tokens, to see how long they become")
        last = steps.run_step(2, count, limit)
        groups = [*small.groups, *last.groups]
        decoding_s = decoding_costs(steps.clock.samples)
        speed = Speed(
            prompt_token_s=prefill_s / prefilled,
            decoding=decoding_s,
            trained_token_s=max(0.0, last.update_s - sum(last.optimizer_s)) / _tokens(last.trained).trained(config),
            update_s=sum(last.optimizer_s) / last.updates * _updates(config),
        )
        if run.episodes is not None:  # they wait for tools, and their turns have prompts of their own
            plain = speed.generate(_tokens(last.groups))
            rest = max(0.0, last.generate_s - plain) / _tokens(last.groups).completions
            speed = replace(speed, decoding=decoding_s._replace(row_s=decoding_s.row_s + rest))
        return Measured(
            speed=speed,
            kept=kept,
            decoding=decoding,
            completions=tuple(len(done.token_ids) for group in groups for done in group.generated),
            truncated=tuple(cut for group in groups for cut in group.truncated),
            look=tuple(first_look(last.groups, sources, graders)),
            grading_s=fmean(score.seconds for group in last.groups for score in group.scores),
            prompts=tuple(tuple(map(len, ids)) for ids in prompts),
            waiting=(_waited_s() - waited) / (time.monotonic() - begun),
        )


@dataclass(frozen=True)
class _Step:
    """A measured step."""

    groups: Sequence[Group]
    trained: Sequence[Group]
    """Those that were trained on."""
    generate_s: float
    update_s: float
    optimizer_s: Sequence[float]
    """Seconds of each call of an optimizer, which are part of `update_s`."""
    updates: int
    """Updates of the policy."""


@dataclass
class _DecodingClock:
    """Measures decoding steps, of which engines report the number of rows."""

    tell: Tell
    samples: list[tuple[int, int, float]] = field(default_factory=list)
    """(rows, tokens of each, seconds) of decoding steps."""
    first: tuple[int, float] = (0, 0.0)
    """(rows, time) of the second report, whose step came right after the prompts had been run."""
    reports: int = 0
    tokens: int = 0
    _rows: int = 0
    _last: float = 0.0
    _told: float = 0.0

    def begin(self) -> None:
        """Begin with another batch."""
        self.reports, self.tokens, self._told = 0, 0, time.perf_counter()

    def __call__(self, rows: int) -> None:
        """Take note of a decoding step that has ended, in which `rows` completions got a token."""
        now = time.perf_counter()
        self.reports += 1
        self.tokens += rows
        # The first step runs the prompts, and so does each that rows have joined. On a GPU the prompts end within the second.
        if self.reports > 2 and rows <= self._rows:
            self.samples.append((rows, self.reports - 1, now - self._last))
        if self.reports <= 2:
            self.first = rows, now
        self._rows, self._last = rows, now
        if now - self._told > TELL_S:
            self._told = now
            self.tell(f"{self.tokens:,} tokens sampled")


class _SmallSteps:
    """Runs small steps of one run."""

    def __init__(self, config: TrainConfig, folder: Path, run: Run, tell: Tell) -> None:
        self._config, self._folder, self._run, self._tell = config, folder, run, tell
        self.clock = _DecodingClock(tell)
        self._trained_token_s = 0.0
        self._optimizer_s: list[float] = []
        learner = run.learner
        for optimizer in (learner.optimizer, *([learner.critic.optimizer] if learner.critic else [])):
            optimizer.register_step_pre_hook(lambda *_: self._optimizer_s.append(-self._now()))
            optimizer.register_step_post_hook(self._stepped)

    def _stepped(self, *_: Any) -> None:
        self._optimizer_s[-1] += self._now()

    def _now(self) -> float:
        if self._run.learner.device.type == "cuda":
            torch.cuda.synchronize(self._run.learner.device)
        return time.perf_counter()

    def run_step(self, step: int, prompts: int, limit: int) -> _Step:
        """Run step number `step` with `prompts` prompts, and completions of at most `limit` tokens."""
        run, config = self._run, self._config
        run.config = run.builder.config = run.learner.config = _small(config, self._folder, prompts, limit)
        if step == 1:  # the steps before have loaded kernels
            self.clock = _DecodingClock(self._tell)
        self.clock.begin()
        start = self._now()
        with tokens_reported(self.clock):
            groups = run.rollouts(step).groups
        generated = self._now()
        trained = self._affordable_update(groups)
        run.learner.config = _small(config, self._folder, len(trained), limit)
        self._optimizer_s.clear()
        told = generated

        def rows_done(done: int, of: int) -> None:
            nonlocal told
            if time.perf_counter() - told > TELL_S:
                told = time.perf_counter()
                self._tell(f"{done} of {of} completions trained on")

        begun = self._now()
        with rows_reported(rows_done):
            rewarded = [replace(group, scores=(Score.correct(),) * len(group.scores)) for group in trained]
            run.learner.update(step, rewarded)
        update_s = self._now() - begun
        self._trained_token_s = update_s / _tokens(trained).trained(config)
        optimizer_s, updates = tuple(self._optimizer_s), _updates(run.learner.config)
        return _Step(groups, trained, generated - start, update_s, optimizer_s, updates)

    def sample_batch(self, prompts: Sequence[Sequence[Sequence[int]]]) -> tuple[float, int]:
        """Sample a few tokens of as many completions as the run samples at the same time, if that takes no longer than allowed.

        Return the seconds that the prompts took, and their number of tokens. The decoding steps are added to `clock`.
        """
        run, config = self._run, self._config
        whole = -(-min(config.generation_rows, config.prompts_per_step * config.group_size) // config.group_size)
        one = BATCH_TOKENS * decoding_costs(self.clock.samples).of(config.group_size, 1)
        count = max(1, min(whole, int(MEASURE_S / one) if one else whole))
        limit = min(BATCH_TOKENS, config.max_new_tokens)
        rows = count * config.group_size
        self._tell(f"3 of 4: {rows} completions at the same time, {limit} tokens of each")
        mixed = mixture(prompts, config, count)
        keys = [[("dry run", number, row) for row in range(config.group_size)] for number in range(count)]
        self.clock.begin()
        start = self._now()
        with run.learner.sampling(), tokens_reported(self.clock):
            run.engine.generate(
                mixed, keys, max_new_tokens=limit, temperature=config.temperature, on_finished=lambda p, g, done: None
            )
        end = self._now()
        if self.clock.reports > 1:
            rows, at = self.clock.first
            end = at - decoding_costs(self.clock.samples).of(rows, 1)
        return max(0.0, end - start), sum(map(len, mixed))

    def affordable(self) -> tuple[int, int]:
        """Return the number of prompts, and the most tokens of a completion, of a step whose sampling takes `LENGTHS_S`."""
        config = self._config
        costs, limit = decoding_costs(self.clock.samples), config.max_new_tokens

        def most(count: int) -> int:
            """Return the largest number of tokens that `count` prompts can get."""
            step_s = costs.of(count * config.group_size, MEASURED_TOKENS)
            return int(LENGTHS_S / step_s) if step_s else limit

        limit = min(limit, max(MEASURED_TOKENS, most(2)))
        count = 2
        while count < config.prompts_per_step and most(count + 1) >= limit:
            count += 1
        return count, limit

    def _affordable_update(self, groups: Sequence[Group]) -> Sequence[Group]:
        """Return the first of `groups`, as many as can be trained on in `MEASURE_S`, at least one for each update."""
        least = min(len(groups), max(1, self._config.updates_per_step))
        for count in range(least, len(groups)):
            if _tokens(groups[: count + 1]).trained(self._config) * self._trained_token_s > MEASURE_S:
                return groups[:count]
        return groups


def _small(config: TrainConfig, folder: Path, prompts: int, max_new_tokens: int) -> TrainConfig:
    changes: dict[str, Any] = {
        "output": folder,
        "engine": "native",
        "vllm_urls": (),
        "overlap": "none",
        "prompts_per_step": prompts,
        "updates_per_step": min(config.updates_per_step, prompts),
        "max_new_tokens": min(config.max_new_tokens, max_new_tokens),
        "dynamic_sampling": False,
        "curriculum": False,
        "replay_share": 0.0,
        "overlong_cache": 0,
        "truncated": "score",
        "step_rewards": False,
    }
    return config.model_copy(update=changes)


def _updates(config: TrainConfig) -> int:
    return config.updates_per_step * config.epochs_per_step


def _decoding(run: Run, config: TrainConfig) -> Decoding:
    model = run.learner.model
    with torch.no_grad(), autocast(model.device, config.dtype):
        if not decodable(model):
            return Decoding()
        return Decoding(not wants_graphs(config.cuda_graphs, model.device), LlamaStep(model, 1).copied_bytes)


def _tokens(groups: Sequence[Group]) -> Tokens:
    lengths = [len(done.token_ids) for group in groups for done in group.generated]
    prompts, before = sum(len(group.prompt_ids) for group in groups), sum(map(attended, lengths))
    return Tokens(prompts, sum(lengths), decode_steps=max(lengths), attended=before)


def _prompts(run: Run, sources: Sequence[Source]) -> list[list[Sequence[int]]]:
    """Return the tokens of the first `PROMPTS_MEASURED` prompts of each source that are not too long."""
    found: list[list[Sequence[int]]] = []
    tried = 10 * PROMPTS_MEASURED
    for source in sources:
        prompts: list[Sequence[int]] = []
        for index in range(tried):
            try:
                ids = run.codec.encode(source.train(index))
            except RowError:
                continue
            if len(ids) <= run.config.max_prompt_tokens:
                prompts.append(ids)
            if len(prompts) == PROMPTS_MEASURED:
                break
        if not prompts:
            raise UsageError(
                f"source {source.label!r}: none of the first {tried} prompts fits into max_prompt_tokens "
                f"({run.config.max_prompt_tokens}) and the data set"
            )
        found.append(prompts)
    return found


def mixture(by_source: Sequence[Sequence[T]], config: TrainConfig, count: int) -> list[T]:
    """Return `count` of the entries of all sources, from each source as many as its share of the prompts says, in order."""
    shares = shares_of(config.sources)
    picked: list[T] = []
    for number in range(count):
        place, source = (number + 0.5) / count, 0
        while source < len(shares) - 1 and place > shares[source]:
            place -= shares[source]
            source += 1
        picked.append(by_source[source][number % len(by_source[source])])
    return picked


def _waited_s() -> float:
    """Return the seconds that this process was ready to run while others had the cores; 0 if the system does not say."""
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
