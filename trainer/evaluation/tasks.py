"""The held-out prompts of an evaluation, and their texts for the contamination search."""

from __future__ import annotations

import re
from typing import Any

from verigym.datasets_cfg.fields import fill
from verigym.datasets_cfg.load import load as load_dataset
from verigym.datasets_cfg.rows import PreparedTask
from verigym.datasets_cfg.schema import DatasetConfig
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Prompt
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.evaluation.contamination import OwnText, words
from verigym.trainer.tasks.chat_prompts import with_system
from verigym.trainer.tasks.mixture import Source, as_graded, build_source, composed, held_out_rows

ANSWER_FORM = "form"
"""Field of a row in which adapters of `datasets_cfg/adapters` describe the form of the answer. Verigym, not the data set, wrote
the text of this field."""


def held_out(config: SourceConfig, prompts: int) -> Source:
    """Return a source with up to `prompts` held-out prompts, the same ones that a training run evaluates on.

    Unlike a training run, this does not need the training split, which some benchmarks lack.

    Raises:
        UsageError: an unknown name, a bad option, no held-out split, or an environment that generates no tasks.
    """
    split = config.eval_split
    if split is None:
        raise UsageError(f"source {config.label!r}: eval_split is null, so there is nothing to evaluate on")
    if config.dataset is None:
        return build_source(config, 0, prompts)
    asking: dict[str, Any] = {"template": config.template, "shots": config.shots, "environment": config.environment}
    rows = load_dataset(config.dataset, split, data_dir=config.data_dir, options=config.options, **asking)
    layers = composed(config, rows.environment)
    environment, asked = (
        layers[-1],
        [with_system(config, as_graded(config, layers, rows[row])) for row in held_out_rows(config.label, len(rows), prompts)],
    )
    try:
        environment.check()
    except EnvironmentFailure as failure:
        raise UsageError(f"source {config.label!r}: {failure}") from None
    return Source(config.label, environment, config.weight, lambda index: asked[index % len(asked)], asked)


def own_texts(config: SourceConfig, source: Source) -> list[OwnText]:
    """Return the text of each held-out prompt of `source` in which to search for contamination, in order.

    This text is the question of a data set's row, or the whole prompt (without template) of a generated task.

    Args:
        config: the source.
        source: from `held_out`.
    """
    if config.dataset is None:
        # Without a template the same tasks come in the same order.
        bare = build_source(config.model_copy(update={"template": None, "system": None}), 0, len(source.held_out))
        return [OwnText(prompt.text) for prompt in bare.held_out]
    rows = load_dataset(config.dataset, config.eval_split or "", data_dir=config.data_dir, options=config.options)
    return [own_text(rows.config, rows.bare(int(str(prompt.metadata["row_index"])))[1]) for prompt in source.held_out]


def task_id(prompt: Prompt) -> str:
    """Return the origin of `prompt` as text: for example `test row 17` in a data set, or `test index 16` if it is generated."""
    if "row_index" in prompt.metadata:
        place = f"row {int(str(prompt.metadata['row_index'])) + 1}"
    else:
        place = f"index {prompt.metadata['index']}" if "index" in prompt.metadata else prompt.key
    return f"{prompt.metadata['split']} {place}" if "split" in prompt.metadata else place


def own_text(config: DatasetConfig, task: PreparedTask) -> OwnText:
    """Return the text of `task`, without the words that the data set's configuration `config` puts around the row's columns."""
    if config.generated:
        return OwnText(task.text)
    runs = [""]
    for place, piece in enumerate(re.split(r"\{([A-Za-z_]\w*)\}", config.question or config.prompt)):
        if place % 2 and piece != ANSWER_FORM:
            runs[-1] += fill(f"{{{piece}}}", task.row)
        elif not place % 2 and not words(piece):
            runs[-1] += piece
        else:
            runs.append("")
    runs = [run for run in runs if words(run)]
    if task.question is None and len(runs) == 1:
        return OwnText(runs[0])
    return OwnText(task.question or task.text, tuple(runs))
