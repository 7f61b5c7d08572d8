"""Adapter for verl: a scoring function for reward managers, an agent loop for tools and turns, and rows for verl's data sets.

verl cannot leave a completion out: if one completion of a batch has no score, verl drops the scores of the whole batch. So the
argument `unscored` says what to report if a reward is missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from verigym.adapters.episodes import Episodes, PlayedEpisode
from verigym.adapters.scoring import Always, Scorer, Told, Unscored
from verigym.adapters.sources import COLUMN, Sources, SourcesLike, open_sources
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt, Status
from verigym.envs.contract.session import TOOLS, opens_sessions
from verigym.envs.extras import need

AGENT = "verigym"
"""Name of our agent loop in the rows and in verl's file `actor_rollout_ref.rollout.agent.agent_loop_config_path`."""

ComputeScore = Callable[..., Coroutine[Any, Any, dict[str, float]]]


def compute_score(
    what: SourcesLike | Sources,
    *,
    unscored: Unscored,
    columns: Mapping[str, str | None] | None = None,
    question: str = "question",
    stop_after: int | None = 64,
    **settings: Any,
) -> ComputeScore:
    """Return the scoring function that verl's `reward.custom_reward_function` names.

    Its result holds `score` (the reward), `acc` (whether the verdict is correct) and `unscored` (whether `score` is only a
    substitute for a missing reward).

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it.
        unscored: what to do about a missing reward: `stop`, `retry` or a number to report in its place.
        columns: for rows that were not made by `rows`: maps each field of the environment's reference (what it grades against)
            to `ground_truth`, `data_source`, or a field of `extra_info`.
        question: field of `extra_info` that holds the prompt, for rows that were not made by `rows`.
        stop_after: raise an error after this many consecutive completions without a reward; None for never.
        settings: keyword arguments of `Grader` and of `open_sources`.

    Raises:
        UsageError: `Scorer` or `Always` refuses an argument.
    """
    always = Always(Scorer(what, columns=columns, stop_after=stop_after, **settings), unscored)

    async def compute_score(
        data_source: str, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any] | None = None, **router: Any
    ) -> dict[str, float]:
        row = {**(extra_info or {}), "data_source": data_source, "ground_truth": ground_truth}
        label, prompt = always.scorer.task(row, row.get(question))
        if opens_sessions(always.scorer.sources.environments[label]):
            raise UsageError(
                f"source {label!r} has episodes, whose turns are not in one text: play it with "
                f"verigym.adapters.verl.agent_loop, which its rows name (agent_name: {AGENT})"
            )
        return _logged(await always.areward((label, prompt), solution_str))

    return compute_score


def rows(what: SourcesLike | Sources, count: int, **options: Any) -> Iterator[dict[str, Any]]:
    """Yield `count` rows for verl's parquet files.

    Each row has the columns `data_source` (the source), `prompt`, `reward_model`, `extra_info` (the whole task) and
    `agent_name`.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it.
        count: number of rows.
        options: keyword arguments of `open_sources`.

    Raises:
        UsageError: `open_sources` refuses an argument, or `Sources.rows` cannot make the rows.
    """
    sources = open_sources(what, **options)
    for index, row in enumerate(sources.rows(count)):
        plays = opens_sessions(sources.environments[row["source"]])
        yield {
            "data_source": row["source"],
            "prompt": row["prompt"],
            "reward_model": {"style": "rule", "ground_truth": row["key"]},
            "extra_info": {"index": index, COLUMN: row[COLUMN]},
            "agent_name": AGENT if plays else "single_turn_agent",
        }


def agent_loop(
    what: SourcesLike | Sources,
    *,
    unscored: Unscored,
    max_turns: int = 8,
    turn_timeout_s: float = 30.0,
    stop_after: int | None = 64,
    **settings: Any,
) -> type:
    """Return an agent loop class for verl, to be named as `_target_` in the entry `verigym` of verl's agent-loop configuration.

    The loop plays an episode through verl's server, which takes and returns token ids. It sets the episode's reward itself, so
    verl calls no reward manager. Tokens that the model reads but did not write are masked from the loss.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it. Single-turn tasks are played as
            episodes of one turn.
        unscored: what to do about a missing reward: `stop`, `retry` or a number to report in its place.
        max_turns: maximum number of model turns in an episode.
        turn_timeout_s: wall time in seconds that a session may take to answer one turn.
        stop_after: raise an error after this many consecutive completions without a reward; None for never.
        settings: keyword arguments of `Grader` and of `open_sources`.

    Raises:
        UsageError: `Scorer` or `Always` refuses an argument, or verl is not installed.
    """
    theirs = need("verl.experimental.agent_loop.agent_loop", "verl's agent loop")
    always = Always(Scorer(what, stop_after=stop_after, **settings), unscored)
    episodes = Episodes(always.scorer, max_turns=max_turns, turn_timeout_s=turn_timeout_s)

    class AgentLoop(theirs.AgentLoopBase):  # type: ignore[name-defined, misc]
        """Episodes of verigym's environments."""

        async def run(self, sampling_params: dict[str, Any], priority: int = 0, **row: Any) -> Any:
            """Play one episode and return its tokens and reward; `row` holds the columns of verl's data set row."""
            messages = [dict(message) for message in row["raw_prompt"]]
            task = always.scorer.task(row.get("extra_info") or {}, messages)
            exact = getattr(self.rollout_config, "full_determinism", False)
            request = f"det-{int(priority)}" if exact else uuid.uuid4().hex
            played = _Played(self, task, request, messages)
            await played.play(episodes.open(task, f"{task[1].key}/{request}"), sampling_params, int(priority))
            told = await always.areward(task, played.completion)
            return theirs.AgentLoopOutput(
                **played.tokens(self.rollout_config.response_length),
                reward_score=told.reward,
                num_turns=played.turns,
                metrics=theirs.AgentLoopMetrics(**played.seconds),
                extra_fields={
                    **played.extra_fields,
                    "turn_scores": [],
                    "tool_rewards": [],
                    "reward_extra_info": _logged(told),
                },
            )

    return AgentLoop


class _Played:
    """One episode of an agent loop: the tokens that the model wrote and read."""

    def __init__(self, loop: Any, task: tuple[str, Prompt], request: str, messages: list[dict[str, Any]]) -> None:
        self._loop, self._request, self._messages = loop, request, messages
        self._tools: Any = task[1].metadata.get(TOOLS) or None
        self._ids: list[int] = []
        self._mask: list[int] = []
        self._logprobs: list[float] | None = None
        self._written: list[int] = []
        self.turns = 1
        self.seconds: dict[str, float] = {"generate_sequences": 0.0, "tool_calls": 0.0}
        self.extra_fields: dict[str, Any] = {}

    async def play(self, episode: PlayedEpisode, sampling_params: Mapping[str, Any], priority: int) -> None:
        """Sample turns until the episode is over or its tokens are."""
        loop, most = self._loop, self._loop.rollout_config.response_length
        self._ids = await loop.ct_build_initial_tokens(self._messages, tools=self._tools)
        while not episode.over:
            text = await self._sampled(sampling_params, priority)
            self.turns += 1
            if self._cut_off(most):  # half a turn is not answered
                await episode.aend("length", text)
                break
            started = loop.loop.time()
            replies = await episode.aturn(text)
            self.seconds["tool_calls"] += loop.loop.time() - started
            if replies:
                await self._read([reply.model_dump(exclude_none=True) for reply in replies], text)
                self.turns += len(replies)
                if len(self._mask) >= most:
                    await episode.aend("context")
        self.completion = episode.completion(self._written)

    def _cut_off(self, most: int) -> bool:
        """Return whether the last turn is half a turn: its tokens are over, or used up before its end."""
        ended = bool(self._written) and self._written[-1] == self._loop.tokenizer.eos_token_id
        return len(self._mask) > most or (len(self._mask) == most and not ended)

    def tokens(self, most: int) -> dict[str, Any]:
        """Return the tokens as `AgentLoopOutput` has them."""
        start = len(self._ids) - len(self._mask)
        return {
            "prompt_ids": self._ids[:start],
            "response_ids": self._ids[start:][:most],
            "response_mask": self._mask[:most],
            "response_logprobs": self._logprobs[:most] if self._logprobs else None,
        }

    async def _sampled(self, sampling_params: Mapping[str, Any], priority: int) -> str:
        loop, started = self._loop, self._loop.loop.time()
        output = await loop.server_manager.generate(
            request_id=self._request, prompt_ids=self._ids, sampling_params=dict(sampling_params), priority=priority
        )
        self.seconds["generate_sequences"] += loop.loop.time() - started
        if output.num_preempted is not None:
            self.seconds["num_preempted"] = self.seconds.get("num_preempted", 0) + output.num_preempted
        self.extra_fields = {**output.extra_fields, **self.extra_fields}
        if output.log_probs and self._logprobs is None:
            self._logprobs = [0.0] * len(self._mask)
        merged, self._mask, self._logprobs = await loop.ct_merge_assistant_token(
            self._ids, output.token_ids, self._mask, self._logprobs, assistant_logprobs=output.log_probs or None
        )
        self._ids = merged.token_ids
        self._written += output.token_ids
        tokenizer, ids = loop.tokenizer, list(output.token_ids)
        while ids and ids[-1] in (tokenizer.eos_token_id, tokenizer.pad_token_id):
            ids.pop()
        return str(tokenizer.decode(ids, skip_special_tokens=False))

    async def _read(self, replies: list[dict[str, Any]], text: str) -> None:
        before = [*self._messages, {"role": "assistant", "content": text}]
        self._messages = [*before, *replies]
        merged, self._mask, self._logprobs = await self._loop.ct_merge_context_msg(
            before, self._messages, self._ids, self._mask, self._logprobs, tools=self._tools
        )
        self._ids = merged.token_ids


def _logged(told: Told) -> dict[str, float]:
    """Return what verl logs beside the reward, numbers alone, with the same keys for each completion."""
    return {
        "score": told.reward,
        "acc": float(told.score.status is Status.CORRECT),
        "unscored": float(told.stand_in),
    }
