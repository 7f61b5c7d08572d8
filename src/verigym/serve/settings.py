"""Settings of the service."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from verigym.envs.grading.placement import Cluster


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class ServiceLimits(_Settings):
    """Limits on the size and number of requests, and on waiting times."""

    body_bytes: int = Field(default=32 * 2**20, ge=1024)
    """A request's body, at most."""
    bodies_bytes: int = Field(default=256 * 2**20, ge=1024)
    """All bodies that are held at the same time."""
    batch_items: int = Field(default=10_000, ge=1)
    """Items of one batch."""
    pending_items: int = Field(default=50_000, ge=1)
    """Items that are accepted and not answered yet, over all requests."""
    connections: int = Field(default=1024, ge=1)
    """Open connections."""
    waiting_connections: int = Field(default=512, ge=1)
    """Connections with an incomplete request; above this number, the connection that has waited longest is closed."""
    head_s: float = Field(default=10.0, gt=0)
    """Seconds for a request's head. They count from the connection for its first request, and from the first byte for later
    ones."""
    body_s: float = Field(default=60.0, gt=0)
    """Time for a request's body."""
    idle_s: int = Field(default=15, ge=1)
    """How long a connection is kept between requests, in whole seconds."""
    write_s: float = Field(default=60.0, gt=0)
    """Seconds that a client may leave a batch's answers unread before its connection is closed."""
    drain_s: float = Field(default=60.0, gt=0)
    """Seconds after SIGTERM for accepted items. Those not graded by then get the error `unavailable`: send them again."""
    kept_answers: int = Field(default=100_000, ge=0)
    """Number of answers that are kept for repeated idempotency keys; the oldest are dropped first."""
    kept_bytes: int = Field(default=128 * 2**20, ge=0)
    """Bytes of these answers together."""
    kept_s: float = Field(default=3600.0, gt=0)
    """How long an answer is kept."""
    episodes: int = Field(default=256, ge=1)
    """Open episodes; and as many ended ones are kept, the newest."""
    episode_turns: int = Field(default=100, ge=1)
    """The model's turns in an episode."""
    episode_idle_s: float = Field(default=600.0, gt=0)
    """An episode that nobody asks for is given up after this time."""

    @model_validator(mode="after")
    def _fit_together(self) -> ServiceLimits:
        for small, large in (("body_bytes", "bodies_bytes"), ("batch_items", "pending_items")):
            if getattr(self, small) > getattr(self, large):
                raise ValueError(
                    f"{small} is {getattr(self, small)} and {large} {getattr(self, large)}: one request could never be accepted"
                )
        return self


class Served(_Settings):
    """An environment to serve, as a configuration describes it."""

    environment: str
    """Name, or `module:Class`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the environment."""
    tools: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Tools for the model, by name with their options; with tools, an environment of one turn has episodes of several turns."""
    concurrency: int | None = Field(default=None, ge=1)
    """Maximum number of the environment's items that are graded at the same time; by default only the number of workers limits
    it."""


class ServiceSettings(_Settings):
    """All settings of the service, which are also the fields of a configuration file."""

    environments: tuple[Served, ...] = Field(min_length=1)
    """What is served; a name alone stands for an environment without options."""
    host: str = "127.0.0.1"
    """Address to listen on. Beyond loopback a token is demanded."""
    port: int = Field(default=8642, ge=0, le=65535)
    """0 takes a free one, which the first line of output names."""
    token_file: str | None = None
    """File with tokens, one a line. By default the environment variable VERIGYM_TOKEN."""
    workers: int | None = Field(default=None, ge=1)
    """Number of grading processes. As many further processes run the sessions. By default one per usable core, at most 8."""
    cluster: Cluster | None = None
    """Grade on the nodes of a cluster, `ray` or `ray:ADDRESS`; sessions stay on this machine."""
    timeout_s: float = Field(default=30.0, gt=0)
    """Wall time in seconds that one item, or one turn of an episode, may take."""
    cache: str | None = None
    """File that keeps verdicts across restarts, as `verigym grade --cache`."""
    limits: ServiceLimits = ServiceLimits()
    """Bounds on requests."""

    @model_validator(mode="before")
    @classmethod
    def _names_alone(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and isinstance(named := fields.get("environments"), list | tuple):
            return {**fields, "environments": [{"environment": one} if isinstance(one, str) else one for one in named]}
        return fields
