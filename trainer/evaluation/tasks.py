"""The prompts of an evaluation, and the texts they are looked for in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from verigym.datasets_cfg.load import load as load_dataset
from verigym.envs.errors import EnvironmentFailure, UsageError
from verigym.trainer.config import SourceConfig
from verigym.trainer.mixture import Source, as_graded, build_source, composed
from verigym.trainer.rng import keyed_random
from verigym.trainer.stages.examples import read_examples


def held_out(config: SourceConfig, prompts: int) -> Source:
    """Return a source with its held-out prompts, the same ones that a training run evaluates on.

    Unlike a training run it does not need the training split, which some benchmarks lack.

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
    chosen = keyed_random("held out", config.label).sample(range(len(rows)), min(prompts, len(rows)))
    layers = composed(config, rows.environment)
    environment, asked = layers[-1], [as_graded(config, layers, rows[row]) for row in sorted(chosen)]
    try:
        environment.check()
    except EnvironmentFailure as failure:
        raise UsageError(f"source {config.label!r}: {failure}") from None
    return Source(config.label, environment, config.weight, lambda index: asked[index % len(asked)], asked)


def training_texts(names: Sequence[str], data_dir: Path | None = None) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of what models may have been trained on, prompts with completions where there are some.

    Args:
        names: JSON Lines files, or `NAME:SPLIT` of data sets.
        data_dir: folder of the data sets' local files; the hub where None.

    Raises:
        UsageError: a file or a data set cannot be read.
    """
    for name in names:
        if name.endswith(".jsonl"):
            for number, example in enumerate(read_examples(Path(name)), 1):
                yield f"{name}:{number}", f"{example.prompt.text}\n{example.completion}"
            continue
        dataset, _, split = name.rpartition(":")
        if not dataset:
            raise UsageError(f"train_data: {name!r} is neither a .jsonl file nor NAME:SPLIT of a data set, such as gsm8k:train")
        rows: Any = load_dataset(dataset, split, data_dir=data_dir)
        for row in range(len(rows)):
            yield f"{name} row {row}", rows[row].text
