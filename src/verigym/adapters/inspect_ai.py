"""Adapter for inspect_ai: `scorer` grades any data set; `task` makes an inspect Task of our data sets or generated tasks.

    # evals.py; then: inspect eval evals.py@gsm8k --model ...
    from inspect_ai import task
    from verigym.adapters import inspect_ai

    @task
    def gsm8k():
        return inspect_ai.task("gsm8k", data_dir="data/gsm8k")

A completion without a reward gets `Score.unscored`: inspect leaves it out of its metrics and counts it in `unscored_samples`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verigym.adapters.episodes import Episodes, with_tools_told
from verigym.adapters.scoring import Scorer
from verigym.adapters.sources import COLUMN, Sources, SourcesLike, open_held_out
from verigym.adapters.user_text import as_user_text
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, FinishReason, Score
from verigym.envs.extras import need

if TYPE_CHECKING:
    import inspect_ai
    import inspect_ai.scorer
    import inspect_ai.solver

WHAT = "verigym.adapters.inspect_ai"
EPISODE = "verigym_episode"
"""Key in a sample's store under which `player` saves the played episode."""
REASONS: Mapping[str, FinishReason] = {"stop": "stop", "max_tokens": "length", "model_length": "context"}
"""Maps inspect's stop reasons to our finish reasons. Other stop reasons are mapped to None."""


def scorer(
    what: SourcesLike | Sources | Scorer, *, columns: Mapping[str, str | None] | None = None, **settings: Any
) -> inspect_ai.scorer.Scorer:
    """Return a scorer for an inspect task: `scorer=scorer("math", columns={"answer": "target"})`.

    A sample's metadata holds its task: either whole in the field `verigym`, where `task` and `Sources.rows` put it, or in the
    fields that `columns` names. In `columns`, the name `target` stands for the sample's target.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it, or an existing `Scorer`.
        columns: maps each field of the environment's reference (what it grades against) to a field of the metadata or to
            `target`.
        settings: keyword arguments of `Scorer`.

    Raises:
        UsageError: `Scorer` refuses an argument, or inspect_ai is not installed.
    """
    scoring = need("inspect_ai.scorer", WHAT)
    ours = what if isinstance(what, Scorer) else Scorer(what, columns=columns, **settings)
    if isinstance(what, Scorer) and (columns or settings):
        raise UsageError(f"scorer: columns and settings are those of the scorer that is given; leave out {columns or settings}")

    async def score(state: Any, target: Any) -> Any:
        row = {"target": target.text, **(state.metadata or {})}
        task = ours.task(row, _messages(state))
        verdict = await ours.ascore(task, completion_of(state))
        return _score(scoring, verdict, ours.reward(verdict))

    @scoring.scorer(metrics=[scoring.mean(), scoring.stderr()], name="verigym")  # type: ignore[untyped-decorator]
    def verigym_scorer(sources: str = "") -> Any:
        return score

    made: inspect_ai.scorer.Scorer = verigym_scorer(sources=", ".join(one.grader for one in ours.sources.environments.values()))
    return made


def player(what: Scorer | Episodes) -> inspect_ai.solver.Solver:
    """Return a solver that plays episodes: it sends the model's texts to the sample's session and shows the model the replies.

    The model calls tools in its text, as in training, and a system message explains them; inspect's own tool calls are not
    used. A single-turn task ends after the model's first text.

    Args:
        what: the scorer of the tasks; or an `Episodes` object made from it, with limits other than the defaults.

    Raises:
        UsageError: inspect_ai is not installed.
    """
    solving, models = need("inspect_ai.solver", WHAT), need("inspect_ai.model", WHAT)
    episodes = what if isinstance(what, Episodes) else Episodes(what)
    roles = {"system": models.ChatMessageSystem, "user": models.ChatMessageUser, "assistant": models.ChatMessageAssistant}

    @solving.solver(name="verigym_player")  # type: ignore[untyped-decorator]
    def verigym_player() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            label, prompt = episodes.scorer.task(state.metadata)
            environment = episodes.scorer.sources.environments[label]
            begun = with_tools_told(prompt, environment, [one.model_dump() for one in prompt.messages])
            state.messages = [roles[one["role"]](content=one["content"]) for one in begun]
            episode = episodes.open((label, prompt), f"{prompt.key}/{state.epoch}")
            while not episode.over:
                state = await generate(state, tool_calls="none")
                reason = REASONS.get(str(state.output.stop_reason))
                if reason in ("length", "context"):  # half a turn is not answered
                    await episode.aend(reason, state.output.completion)
                elif replies := await episode.aturn(state.output.completion):
                    state.messages.append(models.ChatMessageUser(content=as_user_text(replies)))
            state.store.set(EPISODE, episode.completion().model_dump(mode="json"))
            return state

        return solve

    made: inspect_ai.solver.Solver = verigym_player()
    return made


def task(
    what: SourcesLike | Sources,
    *,
    split: str | None = None,
    count: int | None = None,
    max_turns: int = 8,
    data_dir: Path | str | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> inspect_ai.Task:
    """Return an inspect Task over the held-out rows that `verigym eval` would use for the same arguments.

    Args:
        what: the data set, environment or mixture, as `open_held_out` accepts it.
        split: the split to evaluate; None for the default of `open_held_out`.
        count: maximum number of rows per source; None for all.
        max_turns: maximum number of model turns, for tasks that are episodes.
        data_dir: folder with the data sets' local files; by default they are read from the Hugging Face hub.
        options: options of the environment, if `what` is a name.
        settings: keyword arguments of `Scorer`, such as `workers` and `timeout_s`.

    Raises:
        UsageError: `open_held_out` refuses an argument, there are no rows, or inspect_ai is not installed.
    """
    inspect, solving, models = need("inspect_ai", WHAT), need("inspect_ai.solver", WHAT), need("inspect_ai.model", WHAT)
    data = need("inspect_ai.dataset", WHAT)
    sources = open_held_out(what, split=split, count=count, data_dir=data_dir, **(options or {}))
    roles = {"system": models.ChatMessageSystem, "user": models.ChatMessageUser, "assistant": models.ChatMessageAssistant}
    samples = []
    for number, row in enumerate(sources.held_out()):
        label, prompt = sources.task(row[COLUMN])
        samples.append(
            data.Sample(
                input=[roles[one.role](content=one.content) for one in prompt.messages],
                target=sources.environments[label].gold(prompt) or "",
                id=f"{label}/{number:06}",
                metadata={COLUMN: row[COLUMN], "source": label, "key": prompt.key},
            )
        )
    if not samples:
        raise UsageError(f"{sources!r} have no held-out rows: name a data set, or an environment that generates tasks")
    ours = Scorer(sources, **settings)
    episodes = Episodes(ours, max_turns=max_turns)
    made: inspect_ai.Task = inspect.Task(
        dataset=data.MemoryDataset(samples, name="verigym"),
        solver=player(episodes) if episodes.playing else solving.generate(),
        scorer=scorer(ours),
        name=f"verigym_{'_'.join(sources.environments)}",
    )
    return made


def _messages(state: Any) -> Any:
    """Return a sample's own question, before any solver has changed it."""
    given = state.input
    return given if isinstance(given, str) else [{"role": one.role, "content": one.text} for one in given]


def completion_of(state: Any) -> Completion:
    """Return the completion to grade from inspect's `state`: the played episode, or else the model's last text."""
    if (episode := state.store.get(EPISODE)) is not None:
        return Completion(**episode)
    return Completion(text=state.output.completion, finish_reason=REASONS.get(str(state.output.stop_reason)))


def _score(scoring: Any, verdict: Score, reward: float | None) -> Any:
    """Return a verdict as inspect's."""
    known: dict[str, Any] = {"status": verdict.status.value, "grader": verdict.grader, "components": dict(verdict.components)}
    if reward is None:
        why = verdict.error.message if verdict.error is not None else verdict.reason
        if verdict.error is not None:
            known |= {"error": verdict.error.kind, "retryable": verdict.error.retryable}
        return scoring.Score.unscored(reason="scoring_failed", explanation=why, answer=verdict.answer, metadata=known)
    return scoring.Score(value=reward, answer=verdict.answer, explanation=verdict.reason, metadata=known)
