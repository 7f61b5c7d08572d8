"""Settings of an evaluation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, JsonValue, ValidationError, model_validator

from verigym.envs.contract.errors import explain
from verigym.envs.judge.options import Endpoint
from verigym.trainer.config.checks import EPISODE_RULES, Rule, refuse_ineffective
from verigym.trainer.config.episodes import EpisodeFields
from verigym.trainer.config.frozen import Frozen
from verigym.trainer.evaluation.contamination import NGRAM
from verigym.trainer.evaluation.thinking import ThinkingRules
from verigym.trainer.stages.config import SamplerFields

THINKING = ("thinking_close", "thinking_forced", "thinking_waits", "thinking_minimum", "thinking_wait")
HINTS = {"temperature": "one sample is greedy and several are drawn at 1, unless `temperature` says otherwise"}
"""Advice where a file of samples was made with another value of a setting."""
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,59}")


LOCAL_FIELDS = (
    "chat_template_kwargs",
    "max_prompt_tokens",
    "max_left_out",
    "generation_rows",
    "prompts_at_a_time",
    "device",
    "dtype",
    "threads",
    "engine",
    "episode_order",
    "episode_cache_mb",
)
"""Settings of models that this process loads and samples from; a model behind an endpoint knows none of them."""


EVAL_RULES: tuple[Rule, ...] = (
    *EPISODE_RULES,
    (
        LOCAL_FIELDS,
        lambda c: any(isinstance(model, str) for model in c.models.values()),
        "is about models that are loaded here, and all of these are behind an endpoint",
    ),
    (
        ("ngram", "train_data_dirs"),
        lambda c: c.train_data,
        "is about training data; name some in `train_data`",
    ),
)


class EndpointModel(Endpoint):
    """A model behind an OpenAI-compatible server, which is asked for chat completions."""

    sets: ClassVar[tuple[str, ...]] = (*Endpoint.sets, "tools")

    base_url: str
    """Address of the server, up to and without `/chat/completions`, such as http://localhost:8000/v1."""
    model: str = Field(min_length=1)
    """The model's name at the server."""
    extra_body: Mapping[str, JsonValue] = {}
    """More fields of each request, such as `{top_k: 20}`. A field set to null is removed from the request. No secrets: they are
    recorded."""
    tries: int = Field(default=8, ge=1, le=20)
    """Most requests for one turn of the model. A request is repeated if the server fails, is overloaded or hangs up."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Wall time of one request; also the longest wait that the server may ask for (Retry-After)."""
    backoff_s: float = Field(default=1.0, ge=0)
    """Seconds before the second try; doubles each time, with a random factor of 0.5 to 1.5. A longer Retry-After is obeyed."""
    concurrency: int = Field(default=16, ge=1, le=1024)
    """Most requests under way."""

    @model_validator(mode="after")
    def _sampling_is_the_evaluations(self) -> Self:
        own = {"temperature": "temperature", "seed": "seed", "max_tokens": "max_new_tokens"}
        for name, setting in own.items():
            if self.extra_body.get(name) is not None:
                raise ValueError(
                    f"extra_body sets {name}; set `{setting}` of the evaluation (null removes it from the request)"
                )
        return self


class PickerConfig(Frozen):
    """Settings of a picker: an environment, such as a PRM, whose reward ranks samples and needs no reference answer."""

    environment: str
    """Registry name, such as process, reward_model or judge."""
    options: Mapping[str, Any] = {}
    """Its options."""


class EvalConfig(SamplerFields, EpisodeFields):
    """Settings of an evaluation, in which models answer held-out prompts of each source, with k samples per prompt."""

    models: Mapping[str, str | EndpointModel] = Field(min_length=1)
    """Local directory or hub id of each model, by the name that tables show, or the
    [endpoint](evaluation.md#a-model-behind-an-endpoint) that serves it. All other models are compared with the first."""
    prompts: int = Field(default=200, ge=1)
    """Largest number of held-out prompts per source. If this number is raised later, earlier prompts and their samples are
    kept."""
    samples: int = Field(default=1, ge=1)
    """Completions per prompt: k. If raised later, samples are added to earlier ones; if lowered, the first ones are used."""
    temperature: float | None = Field(default=None, ge=0, le=10)
    """Sampling temperature. When left out: 0, which is greedy, for one sample per prompt, and 1 for several."""
    pickers: Mapping[str, PickerConfig] = {}
    """Environments by name. Their rewards pick the best of n samples and weight the votes."""
    train_data: tuple[str, ...] = ()
    """JSON Lines files, or `NAME:SPLIT` of data sets, on which the models may have been trained. Evaluation prompts that occur
    in them are counted."""
    train_data_dirs: Mapping[str, Path] = {}
    """Folder of local files of each data set in train_data, by the data set's name. When left out: the data_dir of the source
    with the same data set, else of the first source that has one."""
    ngram: int = Field(default=NGRAM, ge=2)
    """Words that a prompt and a training text must share in a row."""
    level: float = Field(default=0.95, gt=0, lt=1)
    """Of the bootstrap intervals, which draw whole prompts."""
    thinking_budgets: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Limits on the tokens of thinking. The evaluation samples all prompts once under each limit. With limits, max_new_tokens
    bounds only the answer."""
    thinking_close: str = Field(default="</think>", min_length=1)
    """The text that ends the thinking."""
    thinking_forced: str = "\n</think>\n\n"
    """Text inserted when the budget is used up. It contains thinking_close, and may end with text such as `Final answer:`."""
    thinking_waits: int = Field(default=0, ge=0)
    """How many times per sample the model is made to think on when it ends its thinking early: the text thinking_close, which
    the model has written, is replaced by thinking_wait."""
    thinking_minimum: int | None = Field(default=None, ge=1)
    """With thinking_waits: thinking of fewer tokens than this counts as ended early. When left out, the budget is used."""
    thinking_wait: str = Field(default="Wait", min_length=1)
    """With thinking_waits: the text that is inserted."""

    # Not left to the union of types, whose messages show what was given, which might be a key by mistake.
    @model_validator(mode="before")
    @classmethod
    def _endpoints_are_read(cls, fields: Any) -> Any:
        models = fields.get("models") if isinstance(fields, Mapping) else None
        if not isinstance(models, Mapping):
            return fields
        read: dict[str, Any] = dict(models)
        for label, given in models.items():
            if isinstance(given, Mapping):
                try:
                    read[label] = EndpointModel.model_validate(given)
                except ValidationError as error:
                    raise ValueError(f"models.{label}: {explain(error, EndpointModel.model_fields)}") from None
        return {**fields, "models": read}

    @property
    def sampling_temperature(self) -> float:
        """Return the sampling temperature from the settings, or its default if they set none."""
        return self.temperature if self.temperature is not None else float(self.samples > 1)

    def thinking_rules(self, budget: int) -> ThinkingRules:
        """Return the rules for thinking with a budget of `budget` tokens."""
        return ThinkingRules(
            budget,
            close=self.thinking_close,
            forced=self.thinking_forced,
            waits=self.thinking_waits,
            minimum=self.thinking_minimum,
            wait=self.thinking_wait,
        )

    @model_validator(mode="after")
    def _thinking_is_consistent(self) -> Self:
        changed = {name for name in THINKING if getattr(self, name) != type(self).model_fields[name].default}
        if changed and not self.thinking_budgets:
            raise ValueError(f"{min(changed)} is about a thinking budget; set thinking_budgets, or leave it out")
        waits = changed & {"thinking_minimum", "thinking_wait"}
        if waits and not self.thinking_waits:
            raise ValueError(f"{min(waits)} is about thoughts that are taken up again; set thinking_waits above 0")
        if self.thinking_budgets and not all(isinstance(model, str) for model in self.models.values()):
            raise ValueError(
                "thinking_budgets close a thought in the middle, which a model behind an endpoint cannot be made to do"
            )
        if len(set(self.thinking_budgets)) < len(self.thinking_budgets):
            raise ValueError("thinking_budgets names a budget twice")
        if self.thinking_minimum is not None and self.thinking_minimum > min(self.thinking_budgets):
            raise ValueError("thinking_minimum is above the smallest of thinking_budgets, so its thoughts could not reach it")
        if self.thinking_close not in self.thinking_forced:
            raise ValueError(f"thinking_forced does not hold thinking_close ({self.thinking_close!r}), so no thought would end")
        if self.thinking_close in self.thinking_wait:
            raise ValueError(f"thinking_wait holds thinking_close ({self.thinking_close!r}), so no thought would go on")
        return self

    @model_validator(mode="after")
    def _eval_is_consistent(self) -> Self:
        refuse_ineffective(self, EVAL_RULES)
        if self.samples > 1 and self.temperature == 0:
            raise ValueError("samples above 1 need a temperature above 0: greedy samples are all the same")
        for kind in (self.models, self.pickers):
            for label in kind:
                if not LABEL.fullmatch(label):
                    raise ValueError(f"{label!r} is no name for a file: letters, digits, . _ + and -, at most 60")
        labels = [source.label for source in self.sources]
        if len(set(labels)) < len(labels):
            raise ValueError("two sources have the same name; give one a `name`")
        if "all" in labels:
            raise ValueError("a source is called 'all', which stands for all of them; give it another `name`")
        return self
