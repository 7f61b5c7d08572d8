"""Options and reference of the `judge` environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, model_validator

from verigym.envs.contract.base import Options
from verigym.envs.contract.schema import Reference, sha256_hex
from verigym.envs.judge.judged_text import Cut, Reads
from verigym.envs.judge.prompts import Mode, template_problem

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class JudgeReference(Reference):
    """Data that the judge is given in addition to the question and the submission."""

    answer: str = ""
    """The reference answer. Needed in mode `equivalence`; in the other modes the judge sees it if it is given."""
    rubric: str = ""
    """A rubric of this task's own, in place of the option's."""
    baseline: str = ""
    """The answer to beat, in mode `pairwise`."""


class Endpoint(Options):
    """A model behind an OpenAI-compatible endpoint, and how it is asked."""

    asks: ClassVar[str] = "model"
    """Who asks, for messages."""
    sets: ClassVar[tuple[str, ...]] = ("model", "messages", "response_format", "stream", "n")
    """Fields of the request that `extra_body` must not contain."""

    base_url: str = "http://localhost:8000/v1"
    """The endpoint, up to and without `/chat/completions`."""
    model: str = ""
    """The model's name at the endpoint. Must be given."""
    api_key_env: str = ""
    """Name of the environment variable that holds the API key; empty for none. The key itself is never written to a file."""
    extra_body: Mapping[str, JsonValue] = {}
    """More fields of the request. A field set to null is removed from the request. No secrets: options are recorded."""
    tries: int = Field(4, ge=1, le=20)
    """Most requests for one reply. A request is repeated if the server fails, is overloaded, or sends an unreadable reply."""
    timeout_s: float = Field(12.0, gt=0)
    """Wall time of one request."""
    backoff_s: float = Field(0.5, ge=0)
    """Seconds before the second try; doubles each time, with a random factor of 0.5 to 1.5. A longer Retry-After is obeyed."""
    concurrency: int | None = Field(16, ge=1, le=1024)
    """Most requests under way, over all processes of this user on this machine; None for any number."""
    requests_per_minute: float | None = Field(None, gt=0)
    """Most requests a minute, evenly spaced, over all processes of this user on this machine."""

    # One validator without a field's place: its messages never show what was given, which might be a key by mistake.
    @model_validator(mode="after")
    def _endpoint_is_consistent(self) -> Self:
        if self.api_key_env and not _VARIABLE.fullmatch(self.api_key_env):
            raise ValueError("api_key_env takes the name of an environment variable, such as JUDGE_API_KEY, not the key")
        if problem := _url_problem(self.base_url):
            raise ValueError(problem)
        taken = sorted(set(self.extra_body) & set(self.sets))
        if taken:
            raise ValueError(f"extra_body holds {taken[0]!r}, which the environment sets itself")
        return self

    @property
    def endpoint(self) -> str:
        """Return a file name that identifies the endpoint and model. Requests to them are counted in files of this name."""
        return sha256_hex(f"{self.base_url}|{self.model}")[:16]


class EndpointOptions(Endpoint):
    """The endpoint that an environment asks, and limits on time, replies and prices."""

    asks: ClassVar[str] = "judge"

    structured: Literal["auto", "schema", "off"] = "auto"
    """Whether requests contain the reply's JSON schema (`response_format`). `auto`: yes, until the server refuses a schema."""
    temperature: float | None = Field(0.0, ge=0)
    """Sent where it is not None."""
    max_tokens: int = Field(1024, ge=1)
    """Most tokens of a reply."""
    total_s: float = Field(25.0, gt=0)
    """Wall time of one verdict with all its requests and waits. Keep it below the Grader's `timeout_s`, which is 30."""
    price_in: float | None = Field(None, ge=0)
    """Dollars for a million tokens read; with `price_out`, scores carry `cost_usd`."""
    price_out: float | None = Field(None, ge=0)
    """Dollars for a million tokens written."""
    cache: str = ""
    """A file that stores replies by the hash of the request, so that no request is paid for twice; empty for none."""

    @model_validator(mode="after")
    def _limits_are_consistent(self) -> Self:
        if self.total_s < self.timeout_s:
            raise ValueError(f"total_s={self.total_s:g} is less than timeout_s={self.timeout_s:g}, which is for one request")
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError("price_in and price_out go together")
        return self


class JudgeOptions(EndpointOptions):
    """Which model judges, what it is asked, and how patiently."""

    mode: Mode = "equivalence"
    """What the judge decides. `equivalence`: whether the answer means the same as the reference answer; `rubric`: a grade;
    `pairwise`: whether the answer is better than another one, asked in both orders."""
    reads: Reads = "answer"
    """`answer`: what follows the thinking; `whole`: everything."""
    cut_off: Cut = "floor"
    """For a completion that the token limit has cut off. `floor`: it gets the floor; `judge`: it is judged as it stands."""
    max_chars: int = Field(60_000, ge=1)
    """A longer text is not judged: the status is limit."""
    rubric: str = ""
    """In mode `rubric`: what is graded and how. In the other modes: what matters when two answers are compared. A rubric in
    a task's reference takes precedence."""
    scale: tuple[int, int] = (1, 10)
    """Lowest and highest grade; they become reward 0 and 1."""
    opponents: Literal["group", "baseline"] = "group"
    """In mode `pairwise`, what `score_group` compares a completion with. `group`: each other completion of the group;
    `baseline`: the baseline in the reference."""
    instructions: str = ""
    """The system message, in place of the mode's own."""
    template: str = ""
    """The user's message, in place of the mode's own: text with `{question}`, `{reference}`, `{rubric}`, `{submission}`
    or, in mode `pairwise`, `{first}` and `{second}`."""

    @model_validator(mode="after")
    def _questions_are_consistent(self) -> Self:
        if self.template and (problem := template_problem(self.template, self.mode)):
            raise ValueError(problem)
        if self.scale[0] >= self.scale[1] or self.scale[1] - self.scale[0] > 100:
            raise ValueError(f"scale is {self.scale}; give the lowest grade and then the highest, at most 100 apart")
        return self


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "base_url is not a URL; give one such as http://localhost:8000/v1"
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii() or not url.isprintable() or " " in url:
        return "base_url is not an http or https URL; give one such as http://localhost:8000/v1"
    if parts.username is not None or parts.query or parts.fragment:
        return "base_url holds a user name, a query or a fragment; keys go into an environment variable (api_key_env)"
    return ""
