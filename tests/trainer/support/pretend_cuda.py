"""Pretend CUDA: CPU tensors that say they are on cuda:0 and refuse to be mixed with tensors that do not.

A tensor subclass lies about its device, and a function mode makes factories and `.to` return it. Values and gradients are the
CPU's, so a run on it must end with the CPU's bytes, and a tensor that the code forgot to move raises what CUDA would raise. It
sees what passes through `__torch_function__`; what asks for the real thing, such as CUDA graphs and bitsandbytes, stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

CUDA = torch.device("cuda", 0)
_DEVICE, _IS_CUDA = torch.Tensor.device, torch.Tensor.is_cuda
_MOVES = (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu)

# Calls that CUDA allows with a CPU tensor beside one of its own, or that move nothing.
_MAY_MIX = frozenset(
    """copy_ __getitem__ __setitem__ __set__ __get__ is_same_size tolist item data_ptr __deepcopy__ _backward_hooks set_
    equal_type __reduce_ex__ untyped_storage storage _has_compatible_shallow_copy_type swap_tensors""".split()
)


class CudaTensor(torch.Tensor):
    """A tensor that says it is on cuda:0."""

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Answer a call in which such a tensor takes part."""
        return _call(func, args, dict(kwargs or {}))


class PretendCuda(TorchFunctionMode):
    """Makes factories with `device="cuda"` return such tensors."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Answer any call of torch."""
        return _call(func, args, dict(kwargs or {}))


def install() -> PretendCuda:
    """Pretend that this process has one GPU, until it ends."""
    pretend: dict[str, Any] = {
        "is_available": lambda: True,
        "_lazy_init": lambda: None,
        "synchronize": lambda *_: None,
        "mem_get_info": lambda *_: (80 << 30, 80 << 30),
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "manual_seed_all": lambda _: None,
        "get_device_capability": lambda *_: (9, 0),
        "is_bf16_supported": lambda *_, **__: True,
    }
    for name, answer in pretend.items():
        setattr(torch.cuda, name, answer)
    # So that `module.to` puts new parameters in place of the old ones, which cannot change their class.
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    torch.nn.Module._apply = _keeping_ties(torch.nn.Module._apply)  # type: ignore[method-assign]
    mode = PretendCuda()
    mode.__enter__()
    return mode


def _keeping_ties(apply: Callable[..., Any]) -> Callable[..., Any]:
    """CUDA's parameters change in place, so that those which modules share stay shared; new ones have to be shared again."""

    def applied(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        places: dict[int, list[tuple[torch.nn.Module, str]]] = {}
        for part in module.modules():
            for name, parameter in part.named_parameters(recurse=False):
                places.setdefault(id(parameter), []).append((part, name))
        result = apply(module, *args, **kwargs)
        for (first, first_name), *others in places.values():
            for part, name in others:
                part._parameters[name] = first._parameters[first_name]
        return result

    return applied


def _call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        name = getattr(func, "__name__", "")
        if name == "__get__" and getattr(func, "__self__", None) is _DEVICE:
            return CUDA if isinstance(args[0], CudaTensor) else func(*args)
        if name == "__get__" and getattr(func, "__self__", None) is _IS_CUDA:
            return isinstance(args[0], CudaTensor)
        if func in _MOVES:
            return _moved(func, args, kwargs)
        return _computed(func, name, args, kwargs)


def _moved(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """`tensor.to(...)`, `.cuda()` and `.cpu()`."""
    tensor, given = args[0], args[1:]
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    if func is not torch.Tensor.to:
        device = "cuda" if func is torch.Tensor.cuda else "cpu"
    for one in given:
        if isinstance(one, str | torch.device):
            device = one
        elif isinstance(one, torch.dtype):
            dtype = one
        elif isinstance(one, torch.Tensor):
            device, dtype = (CUDA if isinstance(one, CudaTensor) else "cpu"), one.dtype
    there = isinstance(tensor, CudaTensor) if device is None else _is_cuda(device)
    moved = torch.Tensor.to(tensor, dtype=dtype) if dtype else tensor
    if there is not isinstance(tensor, CudaTensor) and moved.data_ptr() == tensor.data_ptr():
        moved = moved.clone()  # another device is other memory
    return moved.as_subclass(CudaTensor if there else torch.Tensor)


def _computed(func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    flat, _ = tree_flatten((args, kwargs))
    cuda = [one for one in flat if isinstance(one, CudaTensor)]
    if func is torch.Tensor.numpy and cuda:
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    device, there = kwargs.get("device"), bool(cuda)
    if device is not None:
        there = _is_cuda(device)
        kwargs["device"] = "cpu" if there else device
    elif cuda and name not in _MAY_MIX:
        # CUDA takes a CPU tensor without dimensions for a number.
        mixed = [one for one in flat if isinstance(one, torch.Tensor) and not isinstance(one, CudaTensor) and one.dim() > 0]
        if mixed:
            shapes = [tuple(one.shape) for one in cuda], [tuple(one.shape) for one in mixed]
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                f"(when checking arguments for {name}: {shapes[0]} and {shapes[1]})"
            )
    result = func(*args, **kwargs)
    if func is torch.Tensor.copy_:
        return args[0]
    if name == "__getitem__":
        there = isinstance(args[0], CudaTensor)
    return tree_map(_as_cuda, result) if there else result


def _as_cuda(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or isinstance(value, CudaTensor):
        return value
    moved = value.as_subclass(CudaTensor)
    if isinstance(value, torch.nn.Parameter):
        moved._is_param = True  # type: ignore[attr-defined]  # what torch looks at in a subclass
    return moved


def _is_cuda(device: Any) -> bool:
    is_number = isinstance(device, int) and not isinstance(device, bool)
    return is_number or str(device).startswith("cuda")
