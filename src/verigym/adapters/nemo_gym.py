"""Adapter for NeMo Gym: a resources server with the endpoints `/seed_session` and `/verify`, and one endpoint per tool.

    # resources_servers/ours/app.py
    from verigym.adapters import nemo_gym
    Server = nemo_gym.server("suite.yaml", unscored="mask", data_dir="data")
    if __name__ == "__main__":
        Server.run_webserver()

`write_rows` writes the data set. The argument `unscored`, which has no default, says what to answer if a completion has no
reward. With `mask`, the answer has `mask_sample: true`, and a reward of 0 because the field must hold a number. A trainer that
does not read `mask_sample` takes this 0 for a reward. For `stop`, `retry` and a number see `scoring.Always`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict

from verigym.adapters.episodes import Episodes, PlayedEpisode, refuse_other_formats, written_calls
from verigym.adapters.scoring import Always, Scorer, Unscored
from verigym.adapters.sources import COLUMN, Sources, SourcesLike
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, FinishReason, Score, ScoreError
from verigym.envs.contract.session import TOOLS, Interactive
from verigym.envs.extras import need
from verigym.envs.tools.environment import ToolSession

WHAT = "verigym.adapters.nemo_gym"
MASKED = 0.0
"""The number in the reward field of a masked sample. The field must hold a number; `mask_sample` says that it is no reward."""
RESERVED = ("seed_session", "verify", "aggregate_metrics")
OVER = "Error: the episode is over."
LOST = ScoreError(kind="protocol", message="no episode of this session is open: /seed_session comes before /verify")
MOST_EPISODES = 10_000
"""Maximum number of open episodes. When one more is opened, the oldest is dropped, because a rollout that has died never calls
`/verify`."""


def server(
    what: SourcesLike | Sources,
    *,
    unscored: Literal["mask"] | Unscored,
    max_calls: int = 16,
    call_timeout_s: float = 30.0,
    data_dir: Path | str | None = None,
    **settings: Any,
) -> type[Any]:
    """Return a subclass of NeMo Gym's `SimpleResourcesServer` that serves the tools of `what` and grades its tasks.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it.
        unscored: what to report for a completion without a reward: `mask`, `stop`, `retry` or a number.
        max_calls: maximum number of tool calls in one episode.
        call_timeout_s: wall time in seconds that one call may take.
        data_dir: folder with the data sets' local files; by default they are read from the Hugging Face hub.
        settings: keyword arguments of `Scorer`.

    Raises:
        UsageError: `Scorer` refuses an argument; an environment replies to the model's texts, not only to its tool calls,
            and NeMo Gym's agents cannot play such an episode; a tool has the name of an endpoint; or nemo_gym is not
            installed.
    """
    base = need("nemo_gym.base_resources_server", WHAT)
    sessions = need("nemo_gym.server_utils", WHAT).SESSION_ID_KEY
    import fastapi  # which NeMo Gym is made of

    scorer = Scorer(what, data_dir=data_dir, **settings)
    ours = Endpoints(scorer, unscored, max_calls, call_timeout_s)
    request_type, any_body = fastapi.Request, fastapi.Body(...)

    class VerigymSeedRequest(base.BaseSeedSessionRequest):  # type: ignore[misc, name-defined]
        model_config = ConfigDict(extra="allow")
        verigym: str

    class VerigymVerifyRequest(base.BaseVerifyRequest):  # type: ignore[misc, name-defined]
        model_config = ConfigDict(extra="allow")
        verigym: str

    class VerigymVerifyResponse(base.BaseVerifyResponse):  # type: ignore[misc, name-defined]
        model_config = ConfigDict(extra="allow")
        mask_sample: bool = False
        status: str
        reason: str

    class VerigymServer(base.SimpleResourcesServer):  # type: ignore[misc, name-defined]
        """Judges by verigym's environments."""

        def setup_webserver(self) -> Any:
            """Add an endpoint for the tools."""
            app = super().setup_webserver()

            async def call(request, tool, arguments=any_body):  # type: ignore[no-untyped-def]
                said = await ours.call(request.session[sessions], tool, arguments)
                return fastapi.responses.PlainTextResponse(said)

            call.__annotations__ = {"request": request_type, "tool": str, "arguments": Any}
            app.post("/{tool}")(call)
            return app

        async def seed_session(self, request, body):  # type: ignore[no-untyped-def]
            """Begin an episode, where the task has tools."""
            await ours.begin(request.session[sessions], body.verigym)
            return base.BaseSeedSessionResponse()

        async def verify(self, request, body):  # type: ignore[no-untyped-def]
            """Return the verdict on a response."""
            told = await ours.verdict(request.session[sessions], body.verigym, body.response)
            return VerigymVerifyResponse(**{**body.model_dump(), **told})

        async def aggregate_metrics(self, body):  # type: ignore[no-untyped-def]
            """Aggregate the metrics of the samples that are not masked, and count the masked samples as `verigym/no_reward`."""
            scored = [one for one in body.verify_responses if not one.get("mask_sample")]
            found = await super().aggregate_metrics(body.model_copy(update={"verify_responses": scored}))
            found.agent_metrics["verigym/no_reward"] = len(body.verify_responses) - len(scored)
            return found

        seed_session.__annotations__ = {"request": request_type, "body": VerigymSeedRequest}
        verify.__annotations__ = {"request": request_type, "body": VerigymVerifyRequest, "return": VerigymVerifyResponse}
        aggregate_metrics.__annotations__ = {"body": base.AggregateMetricsRequest, "return": base.AggregateMetrics}

    return VerigymServer


def row_of_gym(sources: Sources, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return `row`, a row of `sources`, in NeMo Gym's format: the task, with prompt and tools in the Responses API's form."""
    _, prompt = sources.task(row[COLUMN])
    asked: dict[str, Any] = {"input": [{"role": one.role, "content": one.content} for one in prompt.messages]}
    tools: Any = prompt.metadata.get(TOOLS) or ()
    if tools:
        asked["tools"] = [{"type": "function", "strict": False, **tool["function"]} for tool in tools]
    return {"responses_create_params": asked, COLUMN: row[COLUMN], "source": row["source"]}


def write_rows(sources: Sources, rows: Iterable[Mapping[str, Any]], path: Path | str, agent: str = "") -> int:
    """Write `rows` to `path` as a NeMo Gym data set; return how many rows were written.

    Args:
        sources: the same sources as the server's.
        rows: rows of `sources.rows` or `sources.held_out`.
        path: the JSONL file to write.
        agent: name of the agent that plays the rows, for the field `agent_ref`; if empty, rows have no such field.
    """
    named = {"agent_ref": {"type": "responses_api_agents", "name": agent}} if agent else {}
    lines = [json.dumps({**row_of_gym(sources, row), **named}) for row in rows]
    Path(path).write_text("".join(f"{line}\n" for line in lines))
    return len(lines)


class Endpoints:
    """Implements the server's endpoints. Each NeMo Gym session has at most one open episode.

    Args:
        scorer: provides the tasks and grades them.
        unscored: what to report for a completion without a reward, see `server`.
        max_calls: maximum number of tool calls in one episode.
        call_timeout_s: wall time in seconds that one call may take.

    Raises:
        UsageError: an argument is invalid, or `server` refuses an environment.
    """

    def __init__(self, scorer: Scorer, unscored: Any, max_calls: int, call_timeout_s: float) -> None:
        if max_calls < 1:
            raise UsageError(f"max_calls={max_calls}: expected at least 1")
        self._scorer = scorer
        self._always = None if unscored == "mask" else Always(scorer, unscored)
        self._episodes = Episodes(scorer, max_turns=max_calls + 1, turn_timeout_s=call_timeout_s)  # the answer is a turn, too
        for label in self._episodes.playing:
            _refuse_talkers(scorer.sources, label)
        self._open: dict[str, PlayedEpisode] = {}

    async def begin(self, session: str, cell: str) -> None:
        """Begin an episode for `session` if the task has tools; `cell` is the task, from the row's column `verigym`."""
        label, prompt = self._scorer.task({COLUMN: cell})
        if label not in self._episodes.playing:
            return
        while len(self._open) >= MOST_EPISODES:
            del self._open[next(iter(self._open))]
        self._open[session] = self._episodes.open((label, prompt), session)

    async def call(self, session: str, tool: str, arguments: Any) -> str:
        """Call `tool` with `arguments` in the episode of `session`; return the tool's answer or an error text for the model."""
        episode = self._open.get(session)
        if episode is None:
            return f"Error: there is no tool {tool[:64]!r} here."
        if episode.over:
            return OVER
        if not isinstance(arguments, Mapping):
            return "Error: the arguments are no JSON object."
        replies = await episode.aturn(written_calls([(tool, arguments)]))
        return "\n".join(one.content for one in replies) or OVER

    async def verdict(self, session: str, cell: str, response: Any) -> dict[str, Any]:
        """Grade `response` to the task in `cell` (see `begin`); return the fields of the `/verify` answer, such as `reward`."""
        text, reason = answer_of(response)
        task = self._scorer.task({COLUMN: cell})
        episode = self._open.pop(session, None)
        if episode is None:
            completion = Completion(
                text=text, finish_reason=reason, failure=LOST if task[0] in self._episodes.playing else None
            )
        else:
            if episode.task[1].key != task[1].key:
                raise UsageError("/verify is about another task than /seed_session of the same session")
            completion = await _ended(episode, text, reason)
        if self._always is None:
            verdict = await self._scorer.ascore(task, completion)
            reward = self._scorer.reward(verdict)
        else:
            told = await self._always.areward(task, completion)
            reward, verdict = told.reward, told.score
        return {"reward": MASKED if reward is None else reward, "mask_sample": reward is None, **_told(verdict)}


async def _ended(episode: PlayedEpisode, text: str, reason: FinishReason | None) -> Completion:
    """Give the answer to an episode, and return it."""
    if not episode.over and reason in ("length", "context"):
        await episode.aend(reason, text)
    elif not episode.over:
        await episode.aturn(text)
    if not episode.over:  # the answer calls a tool in its text, so the model would have had another turn
        await episode.aend("turns")
    return episode.completion()


def _told(verdict: Score) -> dict[str, Any]:
    error = None if verdict.error is None else verdict.error.model_dump(mode="json")
    return {
        "status": verdict.status.value,
        "reason": verdict.reason,
        "components": dict(verdict.components),
        "grader": verdict.grader,
        **({"error": error} if error else {}),
    }


def answer_of(response: Any) -> tuple[str, FinishReason | None]:
    """Return the last message's text in `response`, a Responses API object, and the reason why the model stopped.

    The text is empty if the response does not end with a message.
    """
    texts = [
        "".join(part.text for part in item.content if getattr(part, "type", "") == "output_text")
        for item in response.output
        if getattr(item, "type", "") == "message" and item.role == "assistant"
    ]
    last = response.output[-1] if response.output else None
    answered = texts and getattr(last, "type", "") == "message"
    cut = response.incomplete_details is not None and response.incomplete_details.reason == "max_output_tokens"
    return texts[-1] if answered else "", "length" if cut else "stop" if answered else "turns"


def _refuse_talkers(sources: Sources, label: str) -> None:
    """Refuse episodes in which the environment answers a text, and tools that have the name of an endpoint.

    Raises:
        UsageError: it is such an environment.
    """
    environment, task = sources.environments[label], sources.first(label)
    assert isinstance(environment, Interactive)
    session = environment.open(task, "tools")
    try:
        if not isinstance(session, ToolSession):
            raise UsageError(
                f"source {label!r}: the environment answers the model's texts; NeMo Gym's agents only call tools. Play it with "
                "the adapters of verifiers, OpenEnv, verl, SkyRL or ART"
            )
        refuse_other_formats(label, environment, "NeMo Gym's agent")
        if taken := [tool.name for tool in session.tools if tool.name in RESERVED]:
            raise UsageError(f"source {label!r}: the tool {taken[0]!r} has the name of an endpoint; give it another one")
    finally:
        session.close()
