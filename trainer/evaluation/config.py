"""Settings of an evaluation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from verigym.trainer.config.checks import EPISODE_RULES, Rule, refuse_ineffective
from verigym.trainer.config.episodes import EpisodeFields
from verigym.trainer.config.frozen import Frozen
from verigym.trainer.evaluation.contamination import NGRAM
from verigym.trainer.evaluation.thinking import ThinkingRules
from verigym.trainer.stages.config import SamplerFields

THINKING = ("thinking_close", "thinking_forced", "thinking_waits", "thinking_minimum", "thinking_wait")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,59}")


EVAL_RULES: tuple[Rule, ...] = (
    *EPISODE_RULES,
    (
        ("ngram", "train_data_dirs"),
        lambda c: c.train_data,
        "is about training data; name some in `train_data`",
    ),
)


class PickerConfig(Frozen):
    """Settings of a picker: an environment, such as a PRM, whose reward ranks samples and needs no reference answer."""

    environment: str
    """Registry name, such as process, reward_model or judge."""
    options: Mapping[str, Any] = {}
    """Its options."""


class EvalConfig(SamplerFields, EpisodeFields):
    """Settings of an evaluation, in which models answer held-out prompts of each source, with k samples per prompt."""

    models: Mapping[str, str] = Field(min_length=1)
    """Local directory or hub id of each model, by the name that tables show. All other models are compared with the first."""
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
