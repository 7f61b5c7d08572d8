"""Adapter for the library verifiers 0.4 (used by prime-rl): a Taskset with our tasks, and an Env that plays them.

    # my_tasks.py, a module that can be imported; then: vf-eval my_tasks ...
    from verigym.adapters import verifiers
    MyTaskset, MyEnv = verifiers.plugin("suite.yaml", data_dir="data")
    __all__ = ["MyTaskset", "MyEnv"]

If a completion gets no reward because its grading failed, scoring raises an error. The trace (verifiers' record of one rollout)
is then not `ok`: prime-rl counts it, and trains on the other traces. For the opposite direction, `verifiers_environment` makes
a verigym environment of a taskset of verifiers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from verigym.adapters.episodes import Episodes, with_tools_told
from verigym.adapters.scoring import GRADER_SETTINGS, Scorer
from verigym.adapters.sources import COLUMN, Sources, SourcesLike, open_held_out
from verigym.adapters.user_text import as_user_text
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, FinishReason, Prompt
from verigym.envs.extras import need

WHAT = "verigym.adapters.verifiers"
EPISODE = "verigym_episode"
"""Name in a trace's `info` of the episode that was played."""
VERDICT = "verigym"
"""Name of the reward, and in a trace's `info` of the verdict."""
SCORER_SETTINGS = (*GRADER_SETTINGS, "stop_after")
"""Names of the settings that go to `Scorer`; all other settings are options of the environment."""
STOPS: Mapping[str, FinishReason] = {"max_turns": "turns", "max_output_tokens": "length"}
"""Maps the library's stop conditions to our finish reasons; any other stop condition means that the context is full."""


class NoReward(RuntimeError):
    """Raised when grading failed through no fault of the model, so that a trace has no reward."""


def plugin(
    what: SourcesLike | Sources,
    *,
    count: int | None = None,
    evaluate: bool = False,
    eval_split: str | None = None,
    data_dir: Path | str | None = None,
    max_turns: int = 8,
    turn_timeout_s: float = 30.0,
    **settings: Any,
) -> tuple[type[Any], type[Any]]:
    """Return a Taskset class and an Env class of verifiers, for a module to export in its `__all__`.

    The Env has one agent, called `agent`. Since tasks are answered in text, this agent is by default verifiers' plain chat
    (`null`), in a local process. For tasks with tools or turns, the chat talks to sessions in verigym's worker processes.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it; with `evaluate`, as `open_held_out`
            does.
        count: number of rows; None for an endless stream, or with `evaluate` for all held-out rows.
        evaluate: use the held-out rows, as `verigym eval` does, in place of the training rows.
        eval_split: with `evaluate`, the held-out split of the data set or environment; by default `test`.
        data_dir: folder with the data sets' local files; by default they are read from the Hugging Face hub.
        max_turns: maximum number of model turns in an episode.
        turn_timeout_s: wall time in seconds that a session may take to answer one turn.
        settings: keyword arguments of `Scorer`, such as `workers`, `timeout_s` and `seed`, and options of a named environment.

    Raises:
        UsageError: `open_sources` refuses an argument, `eval_split` is given without `evaluate`, or verifiers is not installed.
    """
    if eval_split is not None and not evaluate:
        raise UsageError(f"eval_split={eval_split!r} has no effect without evaluate=True; `split` is what is trained on")
    vf = need("verifiers.v1", WHAT)
    ours = _Ours(what, count, evaluate, eval_split, data_dir, max_turns, turn_timeout_s, settings)
    task_type = _task_type(vf, ours)
    data_type = task_type.data_type()

    class VerigymTaskset(vf.Taskset[task_type]):  # type: ignore[misc, name-defined]
        """Tasks of verigym's environments."""

        INFINITE = count is None and not evaluate

        def load(self) -> Iterator[Any]:
            for row in ours.rows():
                label, prompt = ours.scorer.task(row)
                yield task_type(data_type(**ours.data(vf, label, prompt), verigym=row[COLUMN]), self.config.task)

    class VerigymEnvConfig(vf.EnvConfig):  # type: ignore[misc, name-defined]
        """One agent, which chats."""

        agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})  # type: ignore[name-defined]

    class VerigymEnv(vf.Env[VerigymEnvConfig]):  # type: ignore[misc, name-defined]
        """Runs one task: asks the model once, or plays an episode with a session in verigym's worker processes."""

        async def run(self, task: Any, agents: Any) -> None:
            label, prompt = ours.scorer.task({COLUMN: task.data.verigym})
            if label not in ours.episodes.playing:
                await agents.agent.run(task)
                return
            async with agents.agent.interaction(task) as interaction:
                interaction.trace.info[EPISODE] = await _played(ours.episodes, (label, prompt), interaction)

    return VerigymTaskset, VerigymEnv


class _Ours:
    """What the classes of one plugin share. Opened when first used, for a module that is imported should start nothing."""

    def __init__(
        self,
        what: SourcesLike | Sources,
        count: int | None,
        evaluate: bool,
        eval_split: str | None,
        data_dir: Path | str | None,
        max_turns: int,
        turn_timeout_s: float,
        settings: dict[str, Any],
    ) -> None:
        self._what, self._count, self._evaluate, self._eval_split = what, count, evaluate, eval_split
        self._data_dir, self._settings = data_dir, settings
        self._max_turns, self._turn_timeout_s = max_turns, turn_timeout_s
        self._opened: tuple[Scorer, Episodes] | None = None

    def _open(self) -> tuple[Scorer, Episodes]:
        if self._opened is None:
            if self._evaluate:
                limits = {name: value for name, value in self._settings.items() if name in SCORER_SETTINGS}
                options = {name: value for name, value in self._settings.items() if name not in SCORER_SETTINGS}
                chosen: dict[str, Any] = {"split": self._eval_split, "count": self._count, "data_dir": self._data_dir}
                scorer = Scorer(open_held_out(self._what, **chosen, **options), **limits)
            else:
                scorer = Scorer(self._what, data_dir=self._data_dir, **self._settings)
            self._opened = scorer, Episodes(scorer, max_turns=self._max_turns, turn_timeout_s=self._turn_timeout_s)
        return self._opened

    @property
    def scorer(self) -> Scorer:
        return self._open()[0]

    @property
    def episodes(self) -> Episodes:
        return self._open()[1]

    def rows(self) -> Iterator[dict[str, Any]]:
        sources = self.scorer.sources
        if self._evaluate:
            return sources.held_out()
        return sources.rows(sys.maxsize if self._count is None else self._count)

    def data(self, vf: Any, label: str, prompt: Prompt) -> dict[str, Any]:
        """Return the fields of a task's data: a system message of its own, and one text of the user's where that is all."""
        environment = self.scorer.sources.environments[label]
        told = with_tools_told(prompt, environment, [one.model_dump() for one in prompt.messages])
        system = told.pop(0)["content"] if told[0]["role"] == "system" and len(told) > 1 else None
        alone = len(told) == 1 and told[0]["role"] == "user"
        kinds = {"system": vf.SystemMessage, "user": vf.UserMessage, "assistant": vf.AssistantMessage}
        asked = told[0]["content"] if alone else [kinds[one["role"]](content=one["content"]) for one in told]
        return {"name": f"{label}/{prompt.key}", "system_prompt": system, "prompt": asked, "source": label}


def _task_type(vf: Any, ours: _Ours) -> type[Any]:
    """Return the class of our tasks."""

    class VerigymData(vf.TaskData):  # type: ignore[misc]
        """A task, with what it is judged by."""

        source: str
        verigym: str

    class VerigymTask(vf.Task[VerigymData]):  # type: ignore[misc]
        """Judged by verigym's environment."""

        @vf.reward  # type: ignore[untyped-decorator]
        async def verigym(self, trace: Any) -> float:
            """Return the environment's reward; raise where there is none."""
            verdict = await ours.scorer.ascore(ours.scorer.task({COLUMN: self.data.verigym}), completion_of_trace(trace))
            trace.info[VERDICT] = verdict.model_dump(mode="json", exclude={"steps"})
            reward = ours.scorer.reward(verdict)
            if reward is None:
                raise NoReward(verdict.error.message if verdict.error is not None else verdict.reason)
            return reward

        async def validate(self, runtime: Any) -> bool | None:
            """Return whether the task's own gold scores the maximum; None where none can be written."""
            label, prompt = ours.scorer.task({COLUMN: self.data.verigym})
            environment = ours.scorer.sources.environments[label]
            gold = environment.gold(prompt)
            if gold is None:
                return None
            return (await ours.scorer.ascore((label, prompt), gold)).reward == environment.reward_range[1]

    return VerigymTask


async def _played(episodes: Episodes, task: tuple[str, Prompt], interaction: Any) -> dict[str, Any]:
    """Play an episode in an interaction, and return it as JSON."""
    trace = interaction.trace
    episode = episodes.open(task, trace.id)
    segment = await interaction.turn()
    while not segment.terminated:
        text, reason = _last_text(trace)
        if reason == "length":  # half a turn is not answered
            await episode.aend("length", text)
            break
        replies = await episode.aturn(text)
        if episode.over:
            break
        segment = await interaction.turn(as_user_text(replies))
    if not episode.over:
        await episode.aend(STOPS.get(str(trace.stop_condition), "context"))
    return episode.completion().model_dump(mode="json")


def completion_of_trace(trace: Any) -> Completion:
    """Return the completion to grade from a verifiers `trace`: the played episode, or else the model's last text."""
    if (episode := trace.info.get(EPISODE)) is not None:
        return Completion(**episode)
    text, reason = _last_text(trace)
    return Completion(text=text, finish_reason=reason)


def _last_text(trace: Any) -> tuple[str, FinishReason | None]:
    """Return the model's last text as it wrote it, and what ended it where verifiers knows."""
    texts = [message.content or "" for message in trace.assistant_messages]
    if trace.root_reply is not None:  # of a harness whose parts write messages, too
        texts.append(trace.root_reply)
    calls = [call for call in trace.calls if call.error is None]
    ended = calls[-1].finish_reason if calls else None
    return texts[-1] if texts else "", ended if ended in ("stop", "length") else None
