"""Checkpoints of a sharded model: one file for each process, readable by any number of processes.

`shards/rank-00000-of-00002.safetensors` holds process 0's rows of each tensor: `weight/<name>`, and for the optimizer's state
`<kind>/<name>`, such as `exp_avg/<name>`. The rows of all files, concatenated by rank, are the whole tensor, so a process can
read the rows it needs whatever the number of processes was. Unlike torch's format this needs no pickle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from verigym.envs.contract.errors import UsageError
from verigym.trainer.distributed.world import World

NAME = re.compile(r"rank-(\d{5})-of-(\d{5})\.safetensors")
SHARDS, WEIGHT = "shards", "weight"

Rows = Callable[[int, int], torch.Tensor]
"""Returns a tensor's rows `[start, stop)`."""


def whole_model(start: Path | None) -> Path | None:
    """Return the checkpoint `start` if it has full weights, which can be loaded like any model's; else None.

    A checkpoint has full weights if a single process wrote it. The weights of a sharded checkpoint are loaded by `restore`. The
    result is also None if `start` is None.
    """
    return None if start is None or (start / SHARDS).is_dir() else start


def restore(start: Path, model: Any, optimizer: torch.optim.Optimizer) -> None:
    """Load the checkpoint `start` into model and optimizer; any number of processes may have written it.

    The weights of a checkpoint that a single process wrote must be loaded already; see `whole_model`.

    Raises:
        UsageError: files are missing, or they are of another model.
    """
    if (start / SHARDS).is_dir():
        load_shards(start, model, optimizer)
        return
    saved = torch.load(start / "optimizer.pt", map_location="cpu", weights_only=True, mmap=True)
    restore_optimizer(saved, optimizer)


def restore_optimizer(saved: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> None:
    """Load `saved`, the `state_dict` of a single process's optimizer; for sharded parameters, load only this process's rows."""
    if any(isinstance(parameter, DTensor) for group in optimizer.param_groups for parameter in group["params"]):
        load_whole_optimizer(saved, optimizer)
    else:
        optimizer.load_state_dict(dict(saved))  # moves its tensors to the parameters' device


def save_shards(folder: Path, model: Any, optimizer: torch.optim.Optimizer, world: World) -> None:
    """Write this process's rows of weights and optimizer state.

    Args:
        folder: folder of the checkpoint.
        model: sharded, with its full weights released.
        optimizer: optimizer of the model's parameters.
        world: the processes that train together.
    """
    state: dict[str, torch.Tensor] = {}
    for name, parameter in model.named_parameters():
        state |= {f"{kind}/{name}": value for kind, value in optimizer.state.get(parameter, {}).items()}
    save_weights(folder / SHARDS, model, world, state)


def save_weights(folder: Path, model: Any, world: World, more: Mapping[str, torch.Tensor] | None = None) -> None:
    """Write this process's rows of a model's weights.

    Args:
        folder: for these files alone; made if absent.
        model: unsharded in a single process; else sharded, with its full weights released.
        world: the processes that train together.
        more: further tensors that belong to the model's parameters, by `<kind>/<name>`.
    """
    folder.mkdir(exist_ok=True)
    tensors = {f"{WEIGHT}/{name}": parameter for name, parameter in model.named_parameters()} | dict(more or {})
    rows = {name: own_rows(tensor).detach().contiguous().cpu() for name, tensor in tensors.items()}
    save_file(rows, folder / f"rank-{world.rank:05}-of-{world.size:05}.safetensors")


def load_weights(folder: Path, model: Any) -> None:
    """Load the files that `save_weights` wrote, in any number of processes, into `model`, which may be sharded or not.

    Raises:
        UsageError: files are missing, or they are of another model.
    """
    with _opened(folder) as files:
        names = set(files[0].keys())
        for name, parameter in model.named_parameters():
            if f"{WEIGHT}/{name}" not in names:
                raise UsageError(f"{folder} has no weights {name!r}: it was made with another model")
            fill_rows(parameter, _rows_of_files(files, f"{WEIGHT}/{name}"))


def load_shards(folder: Path, model: Any, optimizer: torch.optim.Optimizer) -> None:
    """Load this process's rows into the model and its optimizer.

    The model may be unsharded, or sharded over another number of processes than the files.

    Raises:
        UsageError: files are missing, or they are of another model.
    """
    with _opened(folder / SHARDS) as files:
        kinds: dict[str, list[str]] = {}
        for key in files[0].keys():
            kind, _, name = key.partition("/")
            kinds.setdefault(name, []).append(kind)
        for name, parameter in model.named_parameters():
            if WEIGHT not in kinds.get(name, ()):
                raise UsageError(f"{folder} has no weights {name!r}: it was made with another model")
            fill_rows(parameter, _rows_of_files(files, f"{WEIGHT}/{name}"))
            state = {kind: _like(parameter, files, f"{kind}/{name}") for kind in kinds[name] if kind != WEIGHT}
            if state:
                optimizer.state[parameter] = state


def load_whole_optimizer(saved: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> None:
    """Load an optimizer state that a single process saved into `optimizer`; each process takes only its own rows.

    Args:
        saved: `optimizer.state_dict()` of an unsharded model.
        optimizer: optimizer of the sharded model's parameters.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, values in saved["state"].items():
        parameter = parameters[number]
        state = optimizer.state[parameter]
        for kind, value in values.items():
            if value.ndim == 0:
                state[kind] = value
                continue
            state[kind] = torch.zeros_like(parameter)
            fill_rows(state[kind], rows_of_tensor(value))


def own_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Return this process's rows of `tensor`, without a copy; all rows if `tensor` is not sharded."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _like(parameter: torch.Tensor, files: list[Any], key: str) -> torch.Tensor:
    """Return the tensor `key` of an optimizer's state: shaped like `parameter`, or a scalar such as `step`."""
    if not files[0].get_slice(key).get_shape():
        number: torch.Tensor = files[0].get_tensor(key)
        return number
    value = torch.zeros_like(parameter)
    fill_rows(value, _rows_of_files(files, key))
    return value


@torch.no_grad()
def fill_rows(target: torch.Tensor, rows: Rows) -> None:
    """Copy into `target` this process's rows, which the function `rows` reads; all rows if `target` is not sharded."""
    own = own_rows(target)
    start = 0
    if isinstance(target, DTensor):
        each = -(-target.shape[0] // target.device_mesh.size())  # FSDP cuts as torch.chunk does
        start = min(target.shape[0], each * target.device_mesh.get_local_rank())
    if own.numel():
        own.copy_(rows(start, start + len(own)))


def rows_of_tensor(whole: Any) -> Rows:
    """Return a function that reads a range of rows from `whole`, which is a tensor or a slice of a safetensors file."""
    return lambda start, stop: whole[start:stop]


def _rows_of_files(files: list[Any], key: str) -> Rows:
    def read(start: int, stop: int) -> torch.Tensor:
        parts, first = [], 0
        for file in files:
            part = file.get_slice(key)
            count = part.get_shape()[0]
            low, high = max(start - first, 0), min(stop - first, count)
            if low < high:
                parts.append(part[low:high])
            first += count
        return torch.cat(parts)

    return read


@contextmanager
def _opened(folder: Path) -> Iterator[list[Any]]:
    """Open all files of the folder, by rank."""
    paths = sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))
    sizes = {int(match.group(2)) for path in paths if (match := NAME.fullmatch(path.name))}
    if sizes != {len(paths)}:
        raise UsageError(f"{folder} should have one file a process of the run, but has {[path.name for path in paths]}")
    with ExitStack() as stack:
        yield [stack.enter_context(safe_open(path, framework="pt")) for path in paths]
