"""From a data set's name to prompts, through the `datasets` library: the hub, or local JSON Lines files."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, overload

import yaml
from pydantic import ValidationError

from verigym.datasets_cfg.fields import FieldProblem
from verigym.datasets_cfg.rows import make_task
from verigym.datasets_cfg.schema import DatasetConfig, RowRange
from verigym.envs import Environment, Prompt, UsageError
from verigym.envs import load as load_environment
from verigym.envs.errors import did_you_mean, explain

SUFFIXES = (".yaml", ".yml")


class RowError(UsageError):
    """A row that does not fit its data set's description."""

    def __init__(self, dataset: str, split: str, row: int, field: str, reason: str) -> None:
        super().__init__(f"data set {dataset!r}, split {split!r}, row {row} (from 0): field {field!r} {reason}")
        self.row = row
        self.field = field
        self.reason = reason


def available() -> list[str]:
    """Names of the data sets that come with the package."""
    files = importlib.resources.files("verigym.datasets_cfg").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def load_config(name_or_path: str | Path) -> DatasetConfig:
    """Read a data set's description: one of `available()`, or a YAML file of yours.

    Raises:
        UsageError: no such data set, or the file does not follow the schema; the message names file and field.
    """
    name = str(name_or_path)
    if name in available():
        text = importlib.resources.files("verigym.datasets_cfg").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    elif isinstance(name_or_path, Path) or name.endswith(SUFFIXES):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None
    else:
        hint = did_you_mean(name, available())
        raise UsageError(f"no data set is called {name!r}{hint}; or give the path of a .yaml file")
    return _parse(text, name)


def _parse(text: str, name: str) -> DatasetConfig:
    try:
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{name}{line}: not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{name}: expected fields such as name, files and prompt; got {type(data).__name__}")
    try:
        return DatasetConfig.model_validate(data)
    except ValidationError as error:
        raise UsageError(f"{name}: {explain(error, DatasetConfig.model_fields)}") from None


class PromptDataset(Sequence[Prompt]):
    """Prompts of one split, made from its rows when asked for; the same row gives the same key each time."""

    def __init__(
        self,
        config: DatasetConfig,
        split: str,
        rows: Sequence[Mapping[str, Any]],
        environment: Environment,
        source: str = "",
    ) -> None:
        self.config = config
        self.split = split
        self.environment = environment
        self.source = source or config.name
        """The file or the repository of the hub that the rows are read from, for messages."""
        self._rows = rows

    def __repr__(self) -> str:
        return f"<{self.config.name}/{self.split}: {len(self)} prompts for {self.environment.grader}>"

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Prompt: ...
    @overload
    def __getitem__(self, index: slice) -> list[Prompt]: ...
    def __getitem__(self, index: int | slice) -> Prompt | list[Prompt]:
        """Make the prompt of a row.

        Raises:
            RowError: the row does not fit; the message names data set, split, row and field.
        """
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return self._prompt(position)

    def _prompt(self, position: int) -> Prompt:
        config = self.config
        try:
            task = make_task(config, self._rows[position])
        except FieldProblem as problem:
            raise RowError(config.name, self.split, position, problem.field, str(problem)) from None
        metadata = {"dataset": config.name, "split": self.split, "row": position, **task.metadata}
        try:
            return self.environment.prompt(task.text, metadata=metadata, **task.reference)
        except ValueError as error:  # a UsageError, or metadata that JSON cannot carry
            raise RowError(config.name, self.split, position, config.gold, str(error)) from None


def load(
    name_or_path: str | Path,
    split: str,
    *,
    data_dir: str | Path | None = None,
    limit: int | None = None,
    options: Mapping[str, Any] | None = None,
    cache_dir: str | Path | None = None,
) -> PromptDataset:
    """Open one split of a data set.

    Args:
        name_or_path: one of `available()`, or the path of a YAML file.
        split: one that the description lists.
        data_dir: read the description's local files below this folder instead of the hub.
        limit: use the first so many rows only.
        options: environment options that go before the description's.
        cache_dir: where `datasets` keeps its converted copy; its own default when not given.

    Raises:
        UsageError: the data set, split or file does not exist, cannot be read or cannot be reached.
    """
    config = load_config(name_or_path)
    environment = load_environment(config.environment, **{**config.options, **(options or {})})
    if limit is not None and limit < 1:
        raise UsageError(f"limit={limit}: expected at least 1 row")
    cache = None if cache_dir is None else str(cache_dir)
    if data_dir is not None:
        rows = _local_rows(config, split, Path(data_dir), cache)
        source = str(Path(data_dir) / config.files[split].path)
    else:
        rows = _hub_rows(config, split, cache)
        source = f"{config.hub.path} on the hub" if config.hub else config.name
    if limit is not None and limit < len(rows):
        rows = rows.select(range(limit))
    return PromptDataset(config, split, rows, environment, source)


def _local_rows(config: DatasetConfig, split: str, data_dir: Path, cache: str | None) -> Any:
    if split not in config.files:
        raise UsageError(f"data set {config.name!r} has no local file for split {split!r}{did_you_mean(split, config.files)}")
    file = config.files[split]
    path = data_dir / file.path
    if not path.is_file():
        raise UsageError(f"data set {config.name!r}: {path} does not exist; is --data-dir {data_dir} the right folder?")
    with _quiet_datasets() as datasets:
        try:
            rows = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=cache)
        except Exception as error:  # the library's own, pyarrow's and the file system's errors have no common base
            raise UsageError(f"data set {config.name!r}: {path} cannot be read as JSON Lines: {_cause(error)}") from None
    return _in_range(config, rows, file.rows) if file.rows else rows


def _in_range(config: DatasetConfig, rows: Any, wanted: RowRange) -> Any:
    if wanted.column not in rows.column_names:
        raise UsageError(f"data set {config.name!r}: its file has no column {wanted.column!r} to choose rows by")
    numbers = rows[wanted.column]
    chosen = [row for row, number in enumerate(numbers) if isinstance(number, int) and wanted.first <= number <= wanted.last]
    return rows.select(chosen)


def _hub_rows(config: DatasetConfig, split: str, cache: str | None) -> Any:
    if config.hub is None or split not in config.hub.names:
        known = config.hub.names if config.hub else ()
        hint = did_you_mean(split, known)
        local = f"; with --data-dir: {', '.join(config.files)}" if split in config.files else ""
        raise UsageError(f"data set {config.name!r} has no split {split!r} on the hub{hint}{local}")
    hub = config.hub
    with _quiet_datasets() as datasets:
        try:
            if split in hub.files:
                urls = [f"hf://datasets/{hub.path}/{file}" for file in hub.files[split]]
                return datasets.load_dataset("json", data_files=urls, split="train", cache_dir=cache)
            return datasets.load_dataset(hub.path, hub.config, split=hub.splits[split], cache_dir=cache)
        except Exception as error:  # as above, and the network's
            local = f", or pass --data-dir DIR to read DIR/{config.files[split].path}" if split in config.files else ""
            raise UsageError(
                f"data set {config.name!r} cannot be read from the hub ({hub.path}): {_cause(error)}; try later{local}"
            ) from None


@contextmanager
def _quiet_datasets() -> Iterator[Any]:
    """Import `datasets` and keep its progress bars and log lines off the terminal while it loads."""
    import datasets

    bars = datasets.are_progress_bars_disabled()
    verbosity = datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    try:
        yield datasets
    finally:
        datasets.logging.set_verbosity(verbosity)
        if not bars:
            datasets.enable_progress_bars()


def _cause(error: BaseException) -> str:
    """Return the innermost reason in one line: outer ones say only that something failed."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:200] or type(error).__name__
