"""The routes, as a FastAPI application behind a `Guard`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Header, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from verigym.envs.contract.base import Environment
from verigym.envs.grading import Grader
from verigym.envs.sessions import Sessions
from verigym.serve import metrics as counting
from verigym.serve import openapi
from verigym.serve.answers import Answers
from verigym.serve.batches import BatchResponse, item_keys
from verigym.serve.catalog import Catalog
from verigym.serve.desk import Desk, ascii_json
from verigym.serve.episodes import Episodes
from verigym.serve.guard import Guard
from verigym.serve.problems import STATUS, Code, Problem
from verigym.serve.reading import JSON, NDJSON, media_type, read, read_batch
from verigym.serve.schemas import (
    KEY,
    EndedEpisode,
    EndEpisode,
    EnvironmentList,
    EpisodeState,
    Health,
    OpenedEpisode,
    OpenEpisode,
    PlayTurn,
    ScoreRequest,
    TurnReply,
)
from verigym.serve.settings import ServiceLimits
from verigym.serve.tokens import Tokens

INLINE_BYTES = 1 << 16
"""Bodies that are longer than this many bytes are parsed in a thread, so that other requests do not wait for them."""

IdempotencyKey = Annotated[str | None, Header(pattern=KEY, description="A request that comes again with it is not done twice.")]
EpisodeId = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="As the episode's opening gave it.")]
_GRADER_COUNTERS = ("cache_hits", "deduplicated", "retries", "worker_deaths", "judge_exceptions")
_SESSION_COUNTERS = ("opened", "failures", "limits", "deaths", "replays")
CODES: Mapping[int, Code] = {status: code for code, status in STATUS.items()}


class Service:
    """The service: its web application, and the grader and sessions that are started and ended with it.

    Args:
        environments: the environments by name.
        tokens: the accepted tokens; none if the service listens on loopback only.
        limits: limits on requests.
        workers: number of grading processes; the same number of further processes is started for sessions.
        cluster: the cluster to grade on, see `Grader`; sessions stay on this machine.
        timeout_s: wall time in seconds that one item, or one turn, may take.
        cache: file in which verdicts are cached; None for no cache.
        concurrency: maximum number of items that are graded at the same time, by environment.
        aliases: other names by which requests may call environments.

    Raises:
        UsageError: an argument is invalid.
    """

    def __init__(
        self,
        environments: Mapping[str, Environment],
        *,
        tokens: Tokens,
        limits: ServiceLimits,
        workers: int | None = None,
        cluster: str | None = None,
        timeout_s: float = 30.0,
        cache: str | None = None,
        concurrency: Mapping[str, int] | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.limits = limits
        self.metrics = counting.Metrics()
        self.catalog = Catalog(environments, aliases)
        self.grader = Grader(
            environments, workers=workers, timeout_s=timeout_s, cache=cache, concurrency=concurrency, cluster=cluster
        )
        self.answers = Answers(limits.kept_answers, limits.kept_bytes, limits.kept_s)
        self.desk = Desk(self.catalog, self.grader, self.answers, limits.pending_items, self.metrics)
        self.sessions: Sessions | None = None
        self.episodes: Episodes | None = None
        if self.catalog.interactive:
            self.sessions = Sessions(
                self.catalog.interactive, workers=workers, timeout_s=timeout_s, idle_s=limits.episode_idle_s
            )
            self.episodes = Episodes(self.sessions, self.catalog, self.desk, limits, self.metrics)
        self.ready = False
        """Whether the workers are up."""
        self.app = Guard(_routes(self), tokens, limits, self.metrics)
        self._watch()

    def start(self) -> None:
        """Start the grading workers and wait for them. The workers for sessions start with the first episode.

        Raises:
            UsageError: no worker can be started.
        """
        self.grader.start()
        self.ready = True

    def close(self) -> None:
        """End the worker processes. Items that have no verdict yet are answered with an error."""
        self.grader.close()
        if self.sessions is not None:
            self.sessions.close()

    def _watch(self) -> None:
        watch = self.metrics.watch
        watch("verigym_items_pending", "Items accepted and not answered.", lambda: self.desk.pending)
        watch("verigym_requests_active", "Requests that were read and are not answered to their end.", lambda: self.app.active)
        watch("verigym_held_bytes", "Bodies of requests that are held.", lambda: self.app.held_bytes)
        watch("verigym_answers_kept", "Answers kept for idempotency keys, or on their way.", lambda: len(self.answers))
        watch("verigym_episodes_open", "Episodes open.", lambda: 0 if self.episodes is None else len(self.episodes))
        watch(
            "verigym_episodes_kept", "Ended episodes that are kept.", lambda: 0 if self.episodes is None else self.episodes.kept
        )
        watch("verigym_ready", "Whether work is taken.", lambda: self.ready and not self.desk.draining)

        def counters() -> dict[str, float]:
            grading = self.grader.stats
            found: dict[str, float] = {f"grader_{name}": getattr(grading, name) for name in _GRADER_COUNTERS}
            found["idempotent_repeats"] = self.answers.repeated
            if self.sessions is not None:
                sessions = self.sessions.stats
                found |= {f"sessions_{name}": getattr(sessions, name) for name in _SESSION_COUNTERS}
            return found

        self.metrics.watch_counters(counters)


def _routes(service: Service) -> FastAPI:
    app = FastAPI(
        title="verigym",
        description="Verdicts on what language models write, and episodes of several turns.",
        version=openapi.VERSION,
        docs_url=None,  # its scripts come from elsewhere
        redoc_url=None,
        separate_input_output_schemas=False,
        redirect_slashes=False,
    )
    _health(app, service)
    _scoring(app, service)
    if service.episodes is not None:
        _episodes(app, service.episodes)
    openapi.describe(app, service.catalog, service.limits)

    @app.exception_handler(Problem)
    async def refused(request: Request, problem: Problem) -> Response:
        service.metrics.refused(problem.code)
        return Response(problem.body, problem.status, problem.headers, JSON)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        return await refused(request, Problem("invalid", f"{first['loc'][0]} {place!r}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        sentences = {
            404: f"there is nothing at {request.url.path!r}; GET /openapi.json lists what there is",
            405: f"{request.url.path!r} does not take {request.method}",
        }
        headers = {"Allow": ", ".join(_methods(app, request))} if error.status_code == 405 else error.headers
        code = CODES.get(error.status_code, "invalid")
        return await refused(request, Problem(code, sentences.get(error.status_code, str(error.detail)), headers=headers))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        return await refused(request, Problem("internal", "the service has failed; its log says more"))

    return app


def _methods(app: FastAPI, request: Request) -> list[str]:
    """Return the methods that a path takes; each may have a route of its own."""
    fitting = [route for route in app.routes if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in fitting for method in route.methods or ()})


def _health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["health"], response_model=Health)
    async def healthz() -> Any:
        """Return whether the process answers."""
        return Health(status="ok")

    @app.get("/readyz", tags=["health"], response_model=Health, responses=openapi.problems("unavailable"))
    async def readyz() -> Any:
        """Return whether work is taken: not before the workers are up, nor while the service drains."""
        service.desk.refuse_if_draining()
        if not service.ready:
            raise Problem("unavailable", "the workers are being started", retry_after_s=1)
        return Health(status="ready")

    @app.get("/metrics", tags=["health"], response_class=Response, responses=openapi.METRICS)
    async def metrics() -> Response:
        """Counters, in Prometheus' text format."""
        return Response(service.metrics.text(), media_type=counting.CONTENT_TYPE)

    @app.get("/environments", tags=["scoring"], response_model=EnvironmentList)
    async def environments() -> Any:
        """What is served, with the reference of each."""
        return EnvironmentList(environments=tuple(service.catalog.describe()))


def _scoring(app: FastAPI, service: Service) -> None:
    desk = service.desk

    @app.post("/score", tags=["scoring"], response_class=Response, **openapi.SCORE)
    async def score(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
        """Grade one item. The answer is its score, whose reward is null where our side failed."""
        media_type(request.headers.get("content-type"), JSON)
        body = await request.body()
        parsed = read(body, ScoreRequest) if len(body) < INLINE_BYTES else await asyncio.to_thread(read, body, ScoreRequest)
        answer = await desk.score(parsed, idempotency_key)
        if answer.problem is not None:
            raise answer.problem
        return Response(answer.score, media_type=JSON)

    @app.post("/score/batch", tags=["scoring"], response_class=Response, **openapi.BATCH)
    async def batch(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
        """Grade many items. The answer is a line of JSON an item, in the order in which verdicts come.

        All items are accepted, or none. An item whose reference does not fit its environment gets a problem, not a score.
        """
        kind = media_type(request.headers.get("content-type"), JSON, NDJSON)
        body = await request.body()
        most = service.limits.batch_items
        if len(body) < INLINE_BYTES:
            items = read_batch(body, kind, most)
        else:
            items = await asyncio.to_thread(read_batch, body, kind, most)
        for place, one in enumerate(items):
            service.catalog.require(one, f"item {place}: ")
        desk.admit(len(items))
        return BatchResponse(desk, items, item_keys(items, idempotency_key))


def _episodes(app: FastAPI, episodes: Episodes) -> None:
    def reading(request: Request, body: bytes, model: type[Any]) -> Any:
        media_type(request.headers.get("content-type"), JSON)
        return read(body, model)

    def answered(model: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        # `response_model` only describes the routes: FastAPI's own answers are UTF-8, which takes no half surrogates.
        return Response(ascii_json(model), status, headers, JSON)

    @app.post("/episodes", tags=["episodes"], status_code=201, response_model=OpenedEpisode, **openapi.OPEN)
    async def open_episode(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
        """Begin an episode."""
        opened = await episodes.open(reading(request, await request.body(), OpenEpisode), idempotency_key)
        try:
            return answered(opened, 201, {"Location": f"/episodes/{opened.episode}"})
        except Exception:  # nobody learns its id
            episodes.drop(opened.episode)
            raise

    @app.get("/episodes/{episode}", tags=["episodes"], response_model=EpisodeState, **openapi.STATE)
    async def state(episode: EpisodeId) -> Response:
        """Return an episode as it stands."""
        return answered(episodes.state(episode))

    @app.post("/episodes/{episode}/turns", tags=["episodes"], response_model=TurnReply, **openapi.TURN)
    async def turn(request: Request, episode: EpisodeId) -> Response:
        """Play the model's next text. A turn that comes again is answered again, and not played twice."""
        return answered(await episodes.turn(episode, reading(request, await request.body(), PlayTurn)))

    @app.post("/episodes/{episode}/end", tags=["episodes"], response_model=EndedEpisode, **openapi.END)
    async def end(request: Request, episode: EpisodeId) -> Response:
        """End an episode, and return it with its score."""
        reason = reading(request, await request.body(), EndEpisode).finish_reason
        return answered(await episodes.end(episode, reason))

    @app.delete("/episodes/{episode}", tags=["episodes"], status_code=204, response_class=Response, **openapi.DROP)
    async def drop(episode: EpisodeId) -> Response:
        """Give up an episode, or forget one that has ended."""
        episodes.drop(episode)
        return Response(status_code=204)
