"""Pins a data set's revision in its YAML: the commit on the hub, the sha256 of local files."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from verigym.datasets_cfg.reading import digest
from verigym.datasets_cfg.schema import DatasetConfig
from verigym.datasets_cfg.yamlfile import node_at
from verigym.envs import UsageError
from verigym.envs.extras import need


def newest(repository: str) -> str:
    """Return the newest commit of a data set's repository on the hub.

    Raises:
        UsageError: the hub cannot be reached, does not know the repository, or refuses the log-in.
    """
    hub: Any = need("huggingface_hub", f"the newest revision of {repository}")
    try:
        revision = hub.HfApi().dataset_info(repository).sha
    except Exception as error:  # the client's, the network's and the offline mode's errors have no common base
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UsageError(f"{repository}: the hub gives no revision: {reason}; try later, or pass --data-dir alone") from None
    if not revision:
        raise UsageError(f"{repository}: the hub names no revision")
    return str(revision)


def pin_revision(text: str, revision: str) -> str:
    """Return the description `text` with `revision` as `hub.revision`; comments and order are preserved."""
    return _put(text, ("hub",), "revision", revision)


def file_digests(config: DatasetConfig, data_dir: Path) -> dict[str, str]:
    """Return the sha256 of the content of each split's local file, by split; files that do not exist are left out.

    Raises:
        UsageError: no file exists, or one cannot be read.
    """
    by_split = {}
    for split, file in config.files.items():
        if paths := file.parts(data_dir):
            try:
                by_split[split] = digest(*paths)
            except (OSError, EOFError, zlib.error) as error:
                raise UsageError(f"cannot read {data_dir / file.path}: {error}") from None
    if not by_split:
        raise UsageError(f"data set {config.name!r}: none of its files is below {data_dir}")
    return by_split


def pin_files(text: str, by_split: Mapping[str, str]) -> str:
    """Return the description `text` with the hashes in `by_split` written into its field `files`, as each split's `sha256`.

    Comments and order are preserved.
    """
    for split, value in by_split.items():
        node = node_at(text, ("files", split))
        if isinstance(node, yaml.ScalarNode):
            start, end = node.start_mark.index, node.end_mark.index
            text = f'{text[:start]}{{path: {text[start:end]}, sha256: "{value}"}}{text[end:]}'
        else:
            text = _put(text, ("files", split), "sha256", value)
    return text


def _put(text: str, path: tuple[str, ...], name: str, value: str) -> str:
    """Set a field of the mapping at a path: in its place where it is there, else behind the mapping's `path`."""
    value = f'"{value}"'  # one of digits alone would be a number
    known = node_at(text, (*path, name))
    if known is not None:
        return f"{text[: known.start_mark.index]}{value}{text[known.end_mark.index :]}"
    mapping, behind = node_at(text, path), node_at(text, (*path, "path")).end_mark.index
    if mapping.flow_style:
        return f"{text[:behind]}, {name}: {value}{text[behind:]}"
    line = text.find("\n", behind)
    line = len(text) if line < 0 else line
    indent = " " * mapping.start_mark.column
    return f"{text[:line]}\n{indent}{name}: {value}{text[line:]}"
