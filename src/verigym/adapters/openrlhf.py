"""Adapter for OpenRLHF: a function for `--reward.remote_url FILE.py`, and an endpoint for `--reward.remote_url http://...`.

OpenRLHF cannot leave a completion out, so the argument `unscored` says what to report if there is no reward. If the function or
the endpoint raises an error, OpenRLHF logs the error, the completion gets no reward, and the training step with this completion
fails. This module does not import OpenRLHF.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from verigym.adapters.scoring import Always, Scorer, Told, Unscored, UnscoredError
from verigym.adapters.sources import COLUMN, Sources, SourcesLike
from verigym.envs import strict_json
from verigym.envs.contract.errors import UsageError, explain
from verigym.envs.contract.schema import Prompt, Status
from verigym.envs.contract.session import opens_sessions
from verigym.envs.extras import need

LABEL = "label"
"""The column that stands for OpenRLHF's `labels` in `columns`."""
ENDS = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<|end|>",
    "<eos>",
    "</s>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
"""Special tokens that end a turn in common tokenizers. They must be stripped, because OpenRLHF keeps them in the query text."""
LONGEST_START = 64
"""Maximum number of characters before the prompt in a query; they may be special tokens that begin the sequence."""


def reward_func(
    what: SourcesLike | Sources,
    *,
    unscored: Unscored,
    columns: Mapping[str, str | None] | None = None,
    ends: Sequence[str] = ENDS,
    stop_after: int | None = 64,
    **settings: Any,
) -> Callable[..., dict[str, Any]]:
    """Return the function `reward_func(queries, prompts, labels)` that OpenRLHF calls.

    Its result holds the tensors `rewards` and `scores` of shape (N,), and in `extra_logs` two more tensors: `correct` is 1 for
    a correct completion, and `unscored` is 1 where the reward is only a substitute because grading failed.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it. For rows of `Sources.rows`, start
            OpenRLHF with `--data.input_key prompt --data.label_key verigym`.
        unscored: what to do about a missing reward: `stop`, `retry` or a number to report in its place.
        columns: for data sets whose labels hold what to grade against, not a whole task: maps a field of the environment's
            reference to `label`.
        ends: special tokens that are stripped from the end of a completion.
        stop_after: raise an error after this many consecutive completions without a reward; None for never.
        settings: keyword arguments of `Grader` and of `open_sources`.

    Raises:
        UsageError: `Scorer` or `Always` refuses an argument.
    """
    judge = _Judge(what, unscored, columns, ends, stop_after, settings)

    def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **_: Any) -> dict[str, Any]:
        torch = need("torch", "OpenRLHF's reward function")
        found = judge(queries, prompts, labels)
        rewards = torch.tensor(found["rewards"], dtype=torch.float32)
        logs = {name: torch.tensor(values, dtype=torch.float32) for name, values in found["extra_logs"].items()}
        return {"rewards": rewards, "scores": rewards.clone(), "extra_logs": logs}

    return reward_func


def app(
    what: SourcesLike | Sources,
    *,
    unscored: Unscored,
    columns: Mapping[str, str | None] | None = None,
    ends: Sequence[str] = ENDS,
    stop_after: int | None = 64,
    **settings: Any,
) -> Any:
    """Return an ASGI application for `uvicorn my_module:app`; it grades the query, prompts and labels posted to any path.

    OpenRLHF sends one completion at a time and expects plain numbers back, so the answer to a single item holds numbers. The
    answer to several items holds lists. An item without a reward is answered with status 503, an invalid one with 400; OpenRLHF
    treats both as errors.

    Args:
        what: see `reward_func`.
        unscored: see `reward_func`.
        columns: see `reward_func`.
        ends: see `reward_func`.
        stop_after: see `reward_func`.
        settings: see `reward_func`.

    Raises:
        UsageError: `reward_func` would refuse an argument, or starlette is not installed.
    """
    applications = need("starlette.applications", "OpenRLHF's endpoint")
    routing, responses = need("starlette.routing", "it"), need("starlette.responses", "it")
    concurrency = need("starlette.concurrency", "it")
    judge = _Judge(what, unscored, columns, ends, stop_after, settings)

    async def answer(request: Any) -> Any:
        try:
            asked = _Asked.model_validate(strict_json.loads((await request.body()).decode("utf-8")))
            found = await concurrency.run_in_threadpool(judge, asked.query, asked.prompts, asked.labels)
        except UnscoredError as error:
            return responses.JSONResponse({"error": str(error)}, status_code=503)
        except ValidationError as error:
            return responses.JSONResponse({"error": explain(error, _Asked.model_fields)}, status_code=400)
        except ValueError as error:
            return responses.JSONResponse({"error": str(error)}, status_code=400)
        single = len(found["rewards"]) == 1
        rewards = found["rewards"][0] if single else found["rewards"]
        logs = {name: values[0] if single else values for name, values in found["extra_logs"].items()}
        return responses.JSONResponse({"rewards": rewards, "scores": rewards, "extra_logs": logs})

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        judge.scorer.close()

    return applications.Starlette(routes=[routing.Route("/{path:path}", answer, methods=["POST"])], lifespan=lifespan)


class _Asked(BaseModel):
    """What OpenRLHF posts."""

    query: list[str]
    prompts: list[str]
    labels: list[Any]


class _Judge:
    def __init__(
        self,
        what: SourcesLike | Sources,
        unscored: Unscored,
        columns: Mapping[str, str | None] | None,
        ends: Sequence[str],
        stop_after: int | None,
        settings: Mapping[str, Any],
    ) -> None:
        self.scorer = Scorer(what, columns=columns, stop_after=stop_after, **settings)
        self._always = Always(self.scorer, unscored)
        self._in_columns, self._ends = columns is not None, tuple(ends)
        for label, environment in self.scorer.sources.environments.items():
            if opens_sessions(environment):
                raise UsageError(
                    f"source {label!r} has episodes, and OpenRLHF's reward function gets one text: train on it with verl, "
                    "SkyRL or ART"
                )

    def __call__(self, queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any]) -> dict[str, Any]:
        if not len(queries) == len(prompts) == len(labels):
            raise ValueError(f"unequal lengths: query {len(queries)}, prompts {len(prompts)}, labels {len(labels)}")
        items = [self._item(*item) for item in zip(queries, prompts, labels, strict=True)]
        # All are queued before the first is waited for, so that the workers share them.
        queued = [self.scorer.submit(*item) for item in items]
        told: list[Told] = [self._always.after(future.result(), *item) for future, item in zip(queued, items, strict=True)]
        return {
            "rewards": [one.reward for one in told],
            "extra_logs": {
                "correct": [float(one.score.status is Status.CORRECT) for one in told],
                "unscored": [float(one.stand_in) for one in told],
            },
        }

    def _item(self, query: str, prompt: str, label: Any) -> tuple[tuple[str, Prompt], str]:
        row = {LABEL: label} if self._in_columns else {COLUMN: label}
        return self.scorer.task(row, prompt), completion_text(query, prompt, self._ends)


def completion_text(query: str, prompt: str, ends: Sequence[str] = ENDS) -> str:
    """Return the completion that follows `prompt` in `query`, without the special tokens `ends` at its end.

    Raises:
        UsageError: `query` does not begin with `prompt`, apart from at most `LONGEST_START` characters.
    """
    start = query.find(prompt, 0, len(prompt) + LONGEST_START)
    if start < 0:
        raise UsageError(
            f"the query {query[:60]!r}... does not begin with its prompt {prompt[:60]!r}..., which OpenRLHF has cut: "
            "raise its limits of length, or leave long prompts out"
        )
    text = query[start + len(prompt) :]
    while ending := next((end for end in ends if text.endswith(end)), ""):
        text = text[: -len(ending)]
    return text
