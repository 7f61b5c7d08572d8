"""Adapter for the trainer ART: an async rollout function that returns a trajectory with its reward.

If a completion gets no reward because its grading failed, the rollout raises an error. ART leaves a failed rollout out of its
group, so no substitute reward is needed. ART tolerates as many failures as `max_exceptions` of `gather_trajectory_groups`
allows; by default it allows none.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from verigym.adapters.episodes import Episodes, PlayedEpisode, refuse_other_formats, written_calls
from verigym.adapters.scoring import Scorer, UnscoredError
from verigym.adapters.sources import Sources, SourcesLike
from verigym.envs import strict_json
from verigym.envs.contract.schema import Message, Prompt, Status
from verigym.envs.contract.session import TOOLS
from verigym.envs.extras import need


class Rollout:
    """Async rollout function, made by `rollout`: call it with an ART model and a row to get a trajectory with its reward."""

    def __init__(self, scorer: Scorer, episodes: Episodes, theirs: ModuleType, sampling: Mapping[str, Any]) -> None:
        self.scorer, self._episodes, self._theirs, self._sampling = scorer, episodes, theirs, sampling

    def __repr__(self) -> str:
        return f"<ART rollout of {self.scorer.sources!r}>"

    async def __call__(self, model: Any, row: Mapping[str, Any]) -> Any:
        """Play one episode and return its `art.Trajectory`.

        Args:
            model: an `art.Model`; its endpoint generates the turns.
            row: a row from `scorer.sources.rows`, or any row with `prompt` and the columns that `columns` names.

        Raises:
            UnscoredError: grading failed, so there is no reward; ART leaves the trajectory out.
            UsageError: the row cannot be used, or `stop_after` consecutive completions have got no reward.
        """
        task = self.scorer.task(row, row.get("prompt"))
        label, prompt = task
        trajectory = self._theirs.Trajectory(
            messages_and_choices=[message.model_dump(exclude_none=True) for message in prompt.messages],
            tools=_tools(prompt),
            metadata={"source": label, "key": prompt.key},
        )
        episode = self._episodes.open(task, self._episodes.next_seed(prompt))
        client = model.openai_client()
        try:
            while not episode.over:
                await self._turn(client, model.get_inference_name(), trajectory, episode)
        finally:
            if not episode.over:
                await episode.aend("abort")
        score = await self.scorer.ascore(task, episode.completion())
        reward = self.scorer.reward(score)
        if reward is None:
            why = score.error.message if score.error is not None else "its judge raises too often"
            raise UnscoredError(f"a completion of {label!r} has no reward: {why}")
        trajectory.reward = reward
        trajectory.metrics.update(
            {name: value for name, value in score.components.items() if value is not None},
            correct=score.status is Status.CORRECT,
            turns=episode.turns,
        )
        return trajectory.finish()

    def close(self) -> None:
        """End the worker processes."""
        self._episodes.close()
        self.scorer.close()

    async def _turn(self, client: Any, name: str, trajectory: Any, episode: PlayedEpisode) -> None:
        tools = {} if trajectory.tools is None else {"tools": trajectory.tools}
        answer = await client.chat.completions.create(
            model=name, messages=trajectory.messages(), logprobs=True, **tools, **self._sampling
        )
        choice = answer.choices[0]
        trajectory.messages_and_choices.append(choice)
        message = choice.message
        calls = message.tool_calls or []
        if calls:
            refuse_other_formats(episode.task[0], self.scorer.sources.environments[episode.task[0]], "ART's endpoint")
        written = written_calls([(one.function.name, _arguments(one.function.arguments)) for one in calls])
        if choice.finish_reason == "length":
            await episode.aend("length", message.content or "")
            return
        replies = await episode.aturn(written or message.content or "")
        for number, reply in enumerate(replies):
            trajectory.messages_and_choices.append(_message(reply, calls[number].id if number < len(calls) else None))


def rollout(
    what: SourcesLike | Sources,
    *,
    columns: Mapping[str, str | None] | None = None,
    sampling: Mapping[str, Any] | None = None,
    max_turns: int = 8,
    turn_timeout_s: float = 30.0,
    stop_after: int | None = 64,
    **settings: Any,
) -> Rollout:
    """Return an async function of an ART model and a row; it plays the row's task and returns the trajectory with its reward.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it.
        columns: for rows that do not hold a whole task in the column `verigym`: maps each field of the environment's reference
            (what it grades against) to the row's column.
        sampling: arguments of `chat.completions.create`, such as `max_completion_tokens`.
        max_turns: maximum number of model turns in an episode.
        turn_timeout_s: wall time in seconds that a session may take to answer one turn.
        stop_after: raise an error after this many consecutive completions without a reward; None for never.
        settings: keyword arguments of `Grader` and of `open_sources`.

    Raises:
        UsageError: `Scorer` refuses an argument, or ART is not installed.
    """
    theirs = need("art", "a rollout of ART")
    scorer = Scorer(what, columns=columns, stop_after=stop_after, **settings)
    return Rollout(scorer, Episodes(scorer, max_turns=max_turns, turn_timeout_s=turn_timeout_s), theirs, sampling or {})


def _tools(prompt: Prompt) -> Any:
    return prompt.metadata.get(TOOLS) or None


def _arguments(text: str) -> Any:
    """Return the arguments of a call; what is no JSON stays a text, which the session refuses and the model is told."""
    try:
        return strict_json.loads(text)
    except ValueError:
        return text


def _message(reply: Message, call: str | None) -> dict[str, Any]:
    """Return a reply as a message of a chat. One of a tool answers the call of its place."""
    if reply.role == "tool" and call is not None:
        return {"role": "tool", "content": reply.content, "tool_call_id": call}
    return {"role": "user" if call is None and reply.role == "tool" else reply.role, "content": reply.content}
