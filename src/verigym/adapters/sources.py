"""`Sources`: environments by label, and data set rows that each hold a whole task, for use in another trainer.

A row holds its whole task in the column `verigym`, and only this column is used for grading. So the task that is graded is
right even if the trainer changes other columns. A single data set can mix tasks of several environments.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from verigym.datasets_cfg import available as datasets_available
from verigym.datasets_cfg.suites import available_suites, load_suite
from verigym.datasets_cfg.yamlfile import read_document
from verigym.envs.contract.base import Environment, TaskSource, require_environment
from verigym.envs.contract.errors import UsageError, did_you_mean, explain
from verigym.envs.contract.schema import Prompt, canonical_json
from verigym.envs.registry import available
from verigym.envs.registry import load as load_environment
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.evaluation.tasks import held_out
from verigym.trainer.tasks.mixture import Mixture, Source, build_source, make_source

COLUMN = "verigym"
"""The column that holds a row's task: JSON text with `source` and `prompt`."""
BATCH = 64
"""Rows within which each source has its share."""
NO_SPLIT = "(none)"
"""Name that replaces the training split of a source that is only evaluated. It equals no real split, so the held-out split can
be any split."""
NO_TASKS = "an environment that writes no tasks of its own"
NO_FILES = "an environment, which reads no files"

SourcesLike = Environment | str | Path | Mapping[str, Any]


class Sources:
    """The environments of a mixture, and the mixture's tasks as rows for another trainer or evaluator.

    Args:
        environments: the environments by label.
        made: the sources that provide tasks, from a data set or by generating them, in order. Empty if the tasks come from
            rows of the trainer's own, whose columns hold the fields of the references.
        seed: determines the order of the rows.
    """

    def __init__(self, environments: Mapping[str, Environment], made: tuple[Source, ...] = (), seed: int = 0) -> None:
        self.environments = dict(environments)
        self._made, self._seed = made, seed

    def __repr__(self) -> str:
        return f"<sources {', '.join(f'{label} ({one.grader})' for label, one in self.environments.items())}>"

    @property
    def makes_rows(self) -> bool:
        """True if the sources provide tasks, from a data set or from an environment that generates them."""
        return bool(self._made)

    def rows(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield `count` training rows, mixed by the sources' weights; every call yields them in the same order.

        Each row has `prompt` (chat messages), `source` (the label), `key` (the task's key) and `verigym` (the whole task, JSON
        text).

        Raises:
            UsageError: the environment cannot generate tasks, or a row of a data set cannot be used.
        """
        if not self._made:
            raise UsageError(
                f"environment {next(iter(self.environments))!r} writes no tasks of its own: give a data set or a suite, or "
                "make the rows yourself, with the fields of its reference as columns"
            )
        mixture = Mixture(self._made, self._seed)
        for start in range(0, count, BATCH):
            for source in mixture.plan(start // BATCH, min(BATCH, count - start)):
                yield row_of(source.label, mixture.draw(source))

    def held_out(self) -> Iterator[dict[str, Any]]:
        """Yield the held-out rows of all sources. Their number was set by `open_sources` or `open_held_out`."""
        for source in self._made:
            for prompt in source.held_out:
                yield row_of(source.label, prompt)

    def first(self, label: str) -> Prompt:
        """Return the first training task of the source `label`.

        Raises:
            UsageError: the source is an environment that cannot generate tasks.
        """
        for source in self._made:
            if source.label == label:
                return source.train(0)
        raise UsageError(f"environment {label!r} writes no tasks of its own: give a data set or a suite")

    def task(self, cell: Any) -> tuple[str, Prompt]:
        """Return the source's label and the prompt in `cell`, the value of a row's column `verigym`: JSON text or a mapping.

        Raises:
            ValueError: `cell` holds no task, its source is unknown, or its task does not fit the environment.
        """
        if isinstance(cell, str | bytes):
            try:
                cell = json.loads(cell)
            except (ValueError, RecursionError):
                raise ValueError(f"column {COLUMN!r} holds no JSON: {cell!r:.60}") from None
        if not isinstance(cell, Mapping) or not isinstance(cell.get("prompt"), Mapping):
            raise ValueError(f"column {COLUMN!r} holds no task: {cell!r:.60}; expected an object with source and prompt")
        label = cell.get("source")
        environment = self.environments.get(label) if isinstance(label, str) else None
        if environment is None or not isinstance(label, str):
            hint = did_you_mean(str(label), self.environments)
            raise ValueError(f"column {COLUMN!r} is of source {label!r:.60}, which is none of these{hint}")
        try:
            return label, environment.load_prompt(cell["prompt"])
        except ValidationError as error:
            raise ValueError(f"column {COLUMN!r}: {explain(error, Prompt.model_fields)}") from None
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"column {COLUMN!r} holds no task of {label!r}: {type(error).__name__}: {error}") from None


def row_of(label: str, prompt: Prompt) -> dict[str, Any]:
    """Return the task `prompt` of the source `label` as a row in the format of `Sources.rows`."""
    return {
        "prompt": [message.model_dump() for message in prompt.messages],
        "source": label,
        "key": prompt.key,
        COLUMN: canonical_json({"source": label, "prompt": prompt.model_dump(mode="json")}),
    }


def open_sources(
    what: SourcesLike | Sources,
    *,
    split: str | None = None,
    eval_split: str | None = None,
    eval_count: int | None = None,
    data_dir: Path | str | None = None,
    seed: int | None = None,
    **options: Any,
) -> Sources:
    """Return the sources that `what` names, to train on or to score with. An argument that would have no effect is refused.

    Args:
        what: an environment, its name or `module:Class`; the name or YAML file of a data set; the name or file of a suite; the
            file of a training run; or a mapping with the key `sources`, as in such a file.
        split: the split to train on if `what` is an environment or a data set; by default `train`. A mixture
            sets the split of each source itself.
        eval_split: the held-out split if `what` is an environment or a data set; none by default. A mixture
            sets the split of each source itself.
        eval_count: maximum number of held-out rows per source; by default 0.
        data_dir: folder with the data sets' local files; by default they are read from the Hugging Face hub.
        seed: determines the order of the rows; by default 0.
        options: options of the environment, if `what` is a name.

    Raises:
        UsageError: `what` names nothing known, an option is invalid or has no effect, or a data set cannot be read.
    """
    splits = _given(split=split, eval_split=eval_split)
    others = _given(eval_count=eval_count, data_dir=data_dir, seed=seed)
    if isinstance(what, Sources):
        _refuse_options("sources that are made already", {**splits, **others, **options})
        return what
    if not isinstance(what, str | Path | Mapping):
        environment = require_environment(what, "environment")
        _refuse_options("an environment that is made already", options)
        given = {environment.name: environment}
        if not isinstance(environment, TaskSource):
            _refuse_options(NO_TASKS, {**splits, **others})
            return Sources(given)
        _refuse_options(NO_FILES, _given(data_dir=data_dir))
        configs = [SourceConfig(environment=environment.name, split="train" if split is None else split, eval_split=eval_split)]
        return _made(configs, seed or 0, eval_count, given)
    if not isinstance(what, Mapping) and _names_environment(str(what)):
        made = load_environment(str(what), **options)
        return open_sources(made, **splits, **others)
    fields = _fields(what, {"split": "train", "eval_split": None, **splits}, splits, data_dir, options)
    return _made([_config(one) for one in fields], seed or 0, eval_count)


def open_held_out(
    what: SourcesLike | Sources,
    *,
    split: str | None = None,
    count: int | None = None,
    data_dir: Path | str | None = None,
    **options: Any,
) -> Sources:
    """Return the sources that `what` names, for an evaluation: their `held_out` rows are the rows that `verigym eval` uses.

    The sources are not for training. An argument that would have no effect is refused.

    Args:
        what: the data set, environment or mixture, as `open_sources` accepts it.
        split: the split to evaluate if `what` is an environment or a data set; by default `test`. Each source of a mixture sets
            its own `eval_split`.
        count: maximum number of rows per source; None for all, which is refused for environments that generate tasks.
        data_dir: folder with the data sets' local files; by default they are read from the Hugging Face hub.
        options: options of the environment, if `what` is a name.

    Raises:
        UsageError: `open_sources` refuses an argument, a source has no held-out split, or it generates tasks and `count` is
            None.
    """
    splits = _given(split=split)
    if isinstance(what, Sources):
        _refuse_options("sources that are made already", {**splits, **_given(count=count, data_dir=data_dir), **options})
        return what
    split = "test" if split is None else split
    given: dict[str, Environment] = {}
    if isinstance(what, Mapping) or (isinstance(what, str | Path) and not _names_environment(str(what))):
        fields = _fields(what, {"split": NO_SPLIT, "eval_split": split}, splits, data_dir, options)
        configs = [_config(one) for one in fields]
    else:
        if isinstance(what, str | Path):
            environment, options = load_environment(str(what), **options), {}
        else:
            environment = require_environment(what, "environment")
        _refuse_options("an environment that is made already", options)
        given = {environment.name: environment}
        if not isinstance(environment, TaskSource):
            _refuse_options(NO_TASKS, {**splits, **_given(count=count, data_dir=data_dir)})
            return Sources(given)
        _refuse_options(NO_FILES, _given(data_dir=data_dir))
        configs = [SourceConfig(environment=environment.name, split=NO_SPLIT, eval_split=split)]
    _refuse_doubles(configs)
    made = []
    for config in configs:
        if count is None and config.dataset is None:
            raise UsageError(f"source {config.label!r} generates its tasks, so there are no `all`: give count=NUMBER")
        most = sys.maxsize if count is None else count
        made.append(build_source(config, 0, most, given) if given else held_out(config, most))
    return Sources({source.label: source.environment for source in made}, tuple(made))


def _fields(
    what: str | Path | Mapping[str, Any],
    splits: Mapping[str, str | None],
    chosen: Mapping[str, Any],
    folder: Path | str | None,
    options: dict[str, Any],
) -> list[dict[str, Any]]:
    """Return the fields of each source.

    Args:
        what: no environment.
        splits: `split` and `eval_split` of a data set.
        chosen: those that the caller named, which a mixture refuses.
        folder: of the local files of data sets.
        options: of the environment of a data set, which a mixture refuses.
    """
    data_dir = Path(folder) if folder else None
    name = str(what) if not isinstance(what, Mapping) else "sources"
    in_file = read_document(name).fields if name.endswith((".yaml", ".yml")) else what if isinstance(what, Mapping) else {}
    if isinstance(in_file.get("sources"), list):
        _refuse_options("a mixture, whose sources have their own", {**chosen, **options})
        if not any("dataset" in one for one in in_file["sources"]):
            _refuse_options("a mixture that reads no data set", _given(data_dir=folder))
        if isinstance(what, Mapping) or "model" in in_file or set(in_file) == {"sources"}:
            here = {} if data_dir is None else {"data_dir": data_dir}
            if all("data_dir" in one for one in in_file["sources"] if "dataset" in one):
                _refuse_options("a mixture whose data sets all name theirs", here)
            return [{**here, **one} if "dataset" in one else dict(one) for one in in_file["sources"]]
        return list(load_suite(name).fields(data_dir)["sources"])
    if name in datasets_available() or in_file:
        one: dict[str, Any] = {"dataset": name, **splits, "options": options}
        return [one if data_dir is None else {**one, "data_dir": data_dir}]
    if name in available_suites():
        _refuse_options("a suite, whose sources have their own", {**chosen, **options})
        return list(load_suite(name).fields(data_dir)["sources"])
    known = [*available(), *datasets_available(), *available_suites()]
    raise UsageError(f"no environment, data set or suite is called {name!r}{did_you_mean(name, known)}")


def _config(fields: Mapping[str, Any]) -> SourceConfig:
    try:
        return SourceConfig(**fields)
    except ValidationError as error:
        raise UsageError(f"source: {explain(error, SourceConfig.model_fields)}") from None


def _made(
    configs: list[SourceConfig], seed: int, eval_count: int | None, given: Mapping[str, Environment] | None = None
) -> Sources:
    _refuse_doubles(configs)
    if eval_count is not None and not any(config.eval_split for config in configs):
        raise UsageError(
            f"eval_count is {eval_count} and no source has an eval_split to hold rows out of; give eval_split, or leave it out"
        )
    sources = tuple(make_source(config, seed, eval_count or 0, given) for config in configs)
    return Sources({source.label: source.environment for source in sources}, sources, seed)


def _names_environment(name: str) -> bool:
    """Return whether it is the name of an environment, or `module:Class`."""
    return name in available() or (":" in name and not name.endswith((".yaml", ".yml")))


def _refuse_doubles(configs: list[SourceConfig]) -> None:
    for config in configs:
        if any(config.label == other.label for other in configs if other is not config):
            raise UsageError(f"sources: two are called {config.label!r}; give one a `name`")


def _given(**options: Any) -> dict[str, Any]:
    """Return those that the caller gave; None is what is left out."""
    return {name: value for name, value in options.items() if value is not None}


def _refuse_options(kind: str, options: Mapping[str, Any]) -> None:
    if options:
        raise UsageError(f"options {', '.join(options)} are given beside {kind}, so that they have no effect; leave them out")
