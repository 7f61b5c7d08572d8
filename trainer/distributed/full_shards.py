"""`shard: full`: a model that no process ever holds as a whole.

Each process reads its rows of every matrix from the files of the model. A repeated layer is gathered before it runs and freed
afterwards. Its gradient is summed over the processes and cut into rows before the gradient of the next layer is computed. The
other parameters (embeddings, last norm, head) stay gathered within the context `gathered`, because the chunked
log-probabilities read the head. Their gradients are cut into rows after each micro-batch.

With adapters, the frozen base is sharded like this and has no gradient. The adapters are small: each process holds them whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from transformers.core_model_loading import revert_weight_conversion

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.model import AdapterFields
from verigym.trainer.distributed.lock_step import LockStep, run_one_token
from verigym.trainer.distributed.sharded_checkpoint import fill_rows, rows_of_tensor
from verigym.trainer.distributed.world import World
from verigym.trainer.logprobs.forward import usable_head
from verigym.trainer.models.lora import (
    BASE_DTYPES,
    adapter_tensors,
    add_adapter,
    allocate_adapters,
    load_adapter,
    merged_weights,
    plain_config,
)
from verigym.trainer.models.path import require_model

INDEX = "model.safetensors.index.json"
PART_BYTES = 2**31
"""Most bytes of one file of the final model, unless a tensor is larger. The first process holds a whole file in memory."""


class FullyShardedPolicy:
    """A policy whose weights are sharded at all times: each pass gathers the full weights of one layer after another.

    It has the same interface as `fsdp.ShardedPolicy`.
    """

    in_rows = True

    def __init__(self, model: Any, world: World) -> None:
        """Take `model`, which `load_sharded` returned."""
        self.model = self.inference_copy = model
        self._world = world

    def gather(self) -> None:
        """Do nothing: layers are gathered when they run."""

    @contextmanager
    def released(self) -> Iterator[None]:
        """Return a context that does nothing: outside of `gathered`, a process holds only its own rows anyway."""
        yield

    def reduce_gradients(self) -> None:
        """Do nothing: each backward pass already sums the gradients and leaves this process its rows."""

    def export(self, folder: Path) -> None:
        """Write the model to `folder` so that transformers can load it. All processes call this."""
        export_sharded(self.model, folder, self._world)


def repeated_layers(model: nn.Module) -> list[nn.Module]:
    """Return the repeated blocks of `model`, such as its decoder layers.

    These are the members of a module list. If `model` has several module lists, one is chosen: in each list, the parameters of
    the members of its most frequent class are counted, and the list with the highest count is taken.

    Raises:
        UsageError: the model has no module list.
    """
    stacks = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList) and len(module)]
    if not stacks:
        raise UsageError(
            f"shard: full needs a model of repeated layers, and {type(model).__name__} has none; set shard to optimizer"
        )

    def weight(layers: list[nn.Module]) -> int:
        [(kind, _)] = Counter(map(type, layers)).most_common(1)
        return sum(parameter.numel() for layer in layers if type(layer) is kind for parameter in layer.parameters())

    return max(stacks, key=weight)


def empty_model(path: str, dtype: torch.dtype) -> Any:
    """Return the model at `path` without its weights: parameters have a shape but no memory, and buffers have their values."""
    config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=False)
    with _parameters_on_meta():
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)
    with suppress(OSError):  # without the file, folder or hub, it follows from the model's configuration
        model.generation_config = transformers.GenerationConfig.from_pretrained(path)
    return model.eval()


@contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Let modules that are made within this context drop the memory of each parameter as soon as it is registered."""
    register = nn.Module.register_parameter

    def register_empty(self: nn.Module, name: str, param: nn.Parameter | None) -> None:
        if param is not None and not param.is_meta:  # a tied one is registered twice
            param = nn.Parameter(param.to("meta"), requires_grad=param.requires_grad)
        register(self, name, param)

    nn.Module.register_parameter = register_empty  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def load_sharded_with_adapters(
    config: AdapterFields, path: str, seed: int, world: World, device: torch.device, start: Path | None
) -> tuple[Any, Any]:
    """Load a model whose frozen base is sharded and whose adapters every process holds whole; return it with its tokenizer.

    Args:
        config: decides about the adapters and the precision of the base.
        path: directory of the base model, whose weights are safetensors.
        seed: key of the adapters' initial values.
        world: the processes that train together.
        device: device of this process.
        start: a checkpoint that `lora.save_policy` wrote; None for the initial adapters.

    Raises:
        UsageError: the base cannot be read in rows, it cannot take the adapters, or those of `start` do not fit it.
    """

    def adapted(base: Any) -> Any:
        policy = add_adapter(base, config, seed)
        allocate_adapters(policy, seed)
        return policy

    policy, tokenizer = load_sharded(path, world, device, trained=True, wrap=adapted, dtype=BASE_DTYPES[config.lora_base])
    if start:
        load_adapter(adapter_tensors(policy), start / "adapter.safetensors")
    return policy, tokenizer


def load_sharded(
    path: str | Path,
    world: World,
    device: torch.device,
    *,
    trained: bool,
    wrap: Callable[[Any], Any] | None = None,
    dtype: torch.dtype = torch.float32,
) -> tuple[Any, Any]:
    """Load a model in shards and return it with its tokenizer. Each process reads only its own rows of the weights.

    Args:
        path: directory of a model whose weights are safetensors.
        world: the processes that train together.
        device: device of this process.
        trained: False for a reference, whose weights never get a gradient.
        wrap: turns the model, whose parameters have no memory yet, into another model, such as a critic with the decoder as
            `base_model`. Parameters that `wrap` adds keep their values, and those that it freezes stay frozen.
        dtype: dtype of the weights.

    Raises:
        UsageError: there is no such directory, or its weights cannot be read in rows.
    """
    path = require_model(path)
    if not Path(path).is_dir():
        raise UsageError(f"shard: full reads a model's files here, and {path!r} is a hub's; download it and name its folder")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        model = empty_model(path, dtype)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        message = " ".join(str(error).split())[:300]
        raise UsageError(f"model: the directory {path!r} cannot be loaded: {message}") from None
    names = dict(model.named_parameters())
    if revert_weight_conversion(model, names).keys() != names.keys():
        raise UsageError(
            f"shard: full reads and writes tensors one by one, and those of {model.config.model_type} are stored in another "
            "form than the model's; set shard to optimizer"
        )
    in_files = {parameter: name for name, parameter in names.items()}
    if wrap is not None:
        model = wrap(model)
    stored = {name: in_files[parameter] for name, parameter in model.named_parameters() if parameter in in_files}
    if not trained:
        model.requires_grad_(False)
    shard_fully(model, world, device)
    _load_rows(model, Path(path), stored)
    _begin(model)
    return model, tokenizer


def shard_fully(model: Any, world: World, device: torch.device) -> None:
    """Shard a model whose parameters have no memory yet into rows, and allocate memory for the rows of this process.

    Parameters that already have memory keep their values; all other parameters have undefined values until they are loaded.
    Adapters are not sharded, and FSDP does not sum their gradients.
    """
    made = {name: parameter.detach().clone() for name, parameter in model.named_parameters() if not parameter.is_meta}
    mesh = init_device_mesh(device.type, (world.size,))
    layers: list[Any] = list(repeated_layers(model))
    adapters = set(adapter_tensors(model).values())
    for layer in layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=True, ignored_params=adapters)
    fully_shard(model, mesh=mesh, reshard_after_forward=False, ignored_params=adapters)
    # By default FSDP prefetches in the order of past passes, which differs between processes: see `lock_step.run_one_token`.
    for layer, following in pairwise(layers):
        layer.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([layer])
    for part in (layers[0], model):
        part.set_modules_to_backward_prefetch([part])  # nothing, as it is there already; an empty list would be the default
    buffers = {name: buffer.to(device, copy=True) for name, buffer in model.named_buffers()}
    model.to_empty(device=device)
    for name, buffer in buffers.items():
        owner, _, last = name.rpartition(".")
        setattr(model.get_submodule(owner), last, buffer)
    for name, parameter in model.named_parameters():
        if name in made:
            fill_rows(parameter, rows_of_tensor(made[name]))


def _begin(model: Any) -> None:
    """Run the first pass, in which FSDP finds its root module, and the checks that run once per model."""
    with torch.no_grad():
        run_one_token(model, backward=False)
    for part in [module for module in model.modules() if isinstance(module, FSDPModule)]:
        # As in `fsdp.shard`: token weights of the whole batch make the gradient a sum.
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
        # All processes sum the same gradients: that of a parameter which no token reached here counts as 0.
        if hasattr(part, "set_reduce_scatter_unused_params"):  # of newer torch
            part.set_reduce_scatter_unused_params(True)
    model.set_reshard_after_backward(False, recurse=False)
    model.reshard()
    model._lock_step = LockStep(model)
    with gathered(model):
        usable_head(model)


def lock_step_of(model: Any) -> LockStep | None:
    """Return the `LockStep` object of `model` if it is fully sharded, else None."""
    found: LockStep | None = getattr(model, "_lock_step", None)
    return found


@contextmanager
def gathered(model: Any) -> Iterator[None]:
    """Return a context in which the fully sharded `model` may run any number of passes, in lock step with other processes."""
    lock_step = lock_step_of(model)
    assert lock_step is not None
    model.unshard()
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)  # it would hold a bfloat16 copy of every layer
    try:
        with lock_step.open():
            yield
    finally:
        torch.set_autocast_cache_enabled(cached)
        model.reshard()


def _load_rows(model: Any, folder: Path, stored: Mapping[str, str]) -> None:
    """Read this process's rows of the parameters in `stored`, which maps their names to the names in the files."""
    files = _files_of(folder)
    parameters = dict(model.named_parameters())
    for name, own in stored.items():
        if own not in files:
            kind = type(_base(model)).__name__.removeprefix("FSDP")
            raise UsageError(f"{folder} has no tensor {own!r}, which {kind} needs; set shard to optimizer")
        with safe_open(folder / files[own], framework="pt") as file:
            rows = file.get_slice(own)
            shape, wanted = list(rows.get_shape()), list(parameters[name].shape)
            if shape != wanted:
                raise UsageError(f"{folder / files[own]}: {own} has the shape {shape}, config.json says {wanted}")
            fill_rows(parameters[name], rows_of_tensor(rows))


def _files_of(folder: Path) -> dict[str, str]:
    """Return the file that holds each tensor, by the tensor's name.

    Raises:
        UsageError: the folder has no safetensors.
    """
    if (folder / INDEX).is_file():
        found: dict[str, str] = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
        return found
    if not (folder / "model.safetensors").is_file():
        raise UsageError(
            f"shard: full reads model.safetensors or {INDEX}, and {folder} has neither; save the model as safetensors"
        )
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        return dict.fromkeys(file.keys(), "model.safetensors")


def export_sharded(model: Any, folder: Path, world: World, part_bytes: int = PART_BYTES) -> None:
    """Write a model to `folder` so that transformers can load it, one tensor after the other; all processes call this.

    Adapters are merged, and also written into `adapter/`, as `lora.save_merged` does.

    Args:
        model: fully sharded.
        folder: made if absent; the first process writes.
        world: the processes that train together.
        part_bytes: largest size of a file in bytes, unless a tensor is larger.
    """
    base = _base(model)
    adapted = base is not model
    dtype = torch.promote_types(base.dtype, torch.float32)  # as `merged_weights` does
    sizes = [p.numel() * dtype.itemsize for name, p in base.named_parameters() if ".lora_" not in name]
    if world.main:
        folder.mkdir(parents=True, exist_ok=True)
    weights: Iterator[tuple[str, torch.Tensor]]
    weights = ((name, whole_tensor(parameter)) for name, parameter in model.named_parameters())
    if adapted:
        weights = merged_weights(model, whole_tensor)
    owners: dict[str, str] = {}
    files = _parts(sizes, part_bytes)
    for file, count in files.items():
        tensors: dict[str, torch.Tensor] = {}
        for name, whole in islice(weights, count):
            owners[name] = file
            if world.main:
                tensors[name] = whole.cpu()
        if world.main:
            save_file(tensors, folder / file, metadata={"format": "pt"})
    if not world.main:
        return
    if len(files) > 1:
        index = {"metadata": {"total_size": sum(sizes)}, "weight_map": owners}
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    config = plain_config(base.config)
    config.architectures = [type(base).__name__.removeprefix("FSDP")]
    config.dtype = dtype
    config.save_pretrained(folder)
    if getattr(base, "generation_config", None) is not None:
        base.generation_config.save_pretrained(folder)
    if adapted:
        model.save_pretrained(folder / "adapter", save_embedding_layers=False)


def _parts(sizes: Sequence[int], part_bytes: int) -> dict[str, int]:
    """Divide tensors of `sizes` bytes into files of at most `part_bytes`; return the number of tensors of each file."""
    counts, held = [0], 0
    for size in sizes:
        if counts[-1] and held + size > part_bytes:
            counts.append(0)
            held = 0
        counts[-1] += 1
        held += size
    if len(counts) == 1:
        return {"model.safetensors": counts[0]}
    return {f"model-{n:05d}-of-{len(counts):05d}.safetensors": count for n, count in enumerate(counts, 1)}


def _base(model: Any) -> Any:
    """Return the transformers model within `model`: its base if it has adapters, else itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def whole_tensor(parameter: torch.Tensor) -> torch.Tensor:
    """Return the full value of `parameter`, joined from the rows of all processes; all processes must call this."""
    value = parameter.detach()
    return value.full_tensor() if isinstance(value, DTensor) else value
