"""Low-rank adapters (LoRA, arXiv 2106.09685; QLoRA, 2305.14314) through peft: `y = W x + (alpha / rank) B A x`.

W is a base weight matrix, which never changes; A and B are the adapter, which is trained. Sampling and updates compute the
adapters in addition to the base weights. The KL's reference is the policy with its adapters off, or with an earlier copy of
them. The final model is a copy with the adapters merged into the weights.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.model import AdapterFields
from verigym.trainer.models.loading import load_model
from verigym.trainer.models.optional import need
from verigym.trainer.rng import keyed_uniforms

ADAPTER = "default"
"""Name of the only adapter in peft."""

BASE_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
"""Dtype of the frozen weights under each `lora_base` that is no quantisation."""


@dataclass(frozen=True)
class WithoutAdapter:
    """The initial model as the KL's reference: the policy with its adapters off. `opened` makes it callable."""

    policy: Any


class EarlierAdapter:
    """An earlier policy as the KL's reference: a copy of the adapters' tensors at that time. `opened` makes it callable."""

    def __init__(self, policy: Any) -> None:
        """Copy the current adapters of `policy`."""
        self.policy = policy
        self.tensors = {name: tensor.detach().clone() for name, tensor in adapter_tensors(policy).items()}

    def take(self) -> None:
        """Replace the copy by the policy's current adapters."""
        for name, tensor in adapter_tensors(self.policy).items():
            self.tensors[name].copy_(tensor.detach())


@contextmanager
def opened(model: Any) -> Iterator[Any]:
    """Return a context that yields a model to call without gradients.

    For a `WithoutAdapter` or `EarlierAdapter` this is the policy with its adapters off or replaced; else it is `model` itself.
    """
    if isinstance(model, WithoutAdapter):
        with model.policy.disable_adapter():
            yield model.policy
    elif isinstance(model, EarlierAdapter):
        parameters = adapter_tensors(model.policy)
        now = {name: parameter.data for name, parameter in parameters.items()}
        try:
            for name, parameter in parameters.items():
                parameter.data = model.tensors[name]
            yield model.policy
        finally:
            for name, parameter in parameters.items():
                parameter.data = now[name]
    else:
        yield model


def load_policy(path: str, config: AdapterFields, seed: int, device: torch.device, start: Path | None) -> tuple[Any, Any]:
    """Load the model that a run trains, and its tokenizer, from the initial model or from a checkpoint.

    Args:
        path: local directory or hub id of the model.
        config: decides whether the model gets adapters, and which.
        seed: key of the adapters' initial values.
        device: device of the model.
        start: a checkpoint that `save_policy` wrote; None for the initial model.

    Raises:
        UsageError: the model cannot be loaded, cannot take the adapters, or does not fit the checkpoint.
    """
    if not config.lora_rank:
        return load_model(start / "model" if start else path, device)
    base, tokenizer = load_base(config, path, device)
    policy = add_adapter(base, config, seed)
    if start:
        load_adapter(adapter_tensors(policy), start / "adapter.safetensors")
    return policy, tokenizer


def save_policy(policy: Any, tokenizer: Any, folder: Path) -> None:
    """Write the policy into the checkpoint `folder`: the adapters alone, or model and tokenizer if there are no adapters."""
    if hasattr(policy, "get_base_model"):
        save_adapter(adapter_tensors(policy), folder / "adapter.safetensors")
        return
    policy.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")


def export_policy(policy: Any, folder: Path) -> None:
    """Write a model to `folder` that transformers can load; adapters are merged (`save_merged`)."""
    if hasattr(policy, "get_base_model"):
        save_merged(policy, folder)
    else:
        policy.save_pretrained(folder)


def load_base(config: AdapterFields, path: str | Path, device: torch.device) -> tuple[Any, Any]:
    """Load the base model in the precision of `lora_base`, and its tokenizer.

    Raises:
        UsageError: the model cannot be loaded, or 4 bits are asked for and bitsandbytes is absent.
    """
    if config.lora_base != "4bit":
        return load_model(path, device, dtype=BASE_DTYPES[config.lora_base])
    need("bitsandbytes", "lora_base: 4bit")
    nf4 = transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    model, tokenizer = load_model(path, device, dtype=torch.bfloat16, quantization_config=nf4, device_map={"": device})
    for module in model.modules():
        # With this instruction set, inference on a CPU repacks the weights and rounds their scales: another model.
        if getattr(module, "support_avx512bf16_for_cpu", False):
            module.support_avx512bf16_for_cpu = False
    return model, tokenizer


def add_adapter(model: Any, config: AdapterFields, seed: int) -> Any:
    """Return the model wrapped by peft, with fp32 adapters that do not change its output yet: A is random, B is 0.

    Args:
        model: a transformers causal language model; its weights are frozen.
        config: rank, alpha and targets.
        seed: key of A's values, which are uniform within 1 / sqrt(inputs), as in the paper's code.

    Raises:
        UsageError: peft is absent, the model lacks the target layers, or the head or the embeddings would get an adapter.
    """
    peft = need("peft", "lora_rank")
    targets = config.lora_targets
    settings = peft.LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,
        lora_dropout=0.0,
        target_modules=targets if isinstance(targets, str) else list(targets),
        bias="none",
        task_type="CAUSAL_LM",
    )
    try:
        # The initial values that peft draws from the global state are replaced below; what it warns of is refused below.
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            policy = peft.get_peft_model(model, settings, adapter_name=ADAPTER)
    except ValueError as error:
        line = " ".join(str(error).split())[:200]
        raise UsageError(f"lora_targets: {line}; name linear layers of {type(model).__name__}") from None
    ends = (policy.get_output_embeddings(), policy.get_input_embeddings())
    if any(hasattr(layer, "get_base_layer") for layer in ends):
        raise UsageError("lora_targets: the head and the embeddings, which may be one matrix, get no adapter; leave them out")
    if not any(parameter.is_meta for parameter in adapter_tensors(policy).values()):
        _set_initial_values(policy, seed)
    return policy.eval()


def allocate_adapters(policy: Any, seed: int) -> None:
    """Give the adapters of `policy`, which have no memory yet, memory on the CPU and the initial values of `add_adapter`."""
    for name in adapter_tensors(policy):
        policy.get_submodule(name.rpartition(".")[0]).to_empty(device="cpu")
    _set_initial_values(policy, seed)


@torch.no_grad()
def _set_initial_values(policy: Any, seed: int) -> None:
    for name, parameter in adapter_tensors(policy).items():
        if ".lora_A." in name:
            uniform = 2 * keyed_uniforms(parameter.numel(), seed, "lora", name) - 1
            parameter.copy_(uniform.reshape(parameter.shape) / parameter.shape[1] ** 0.5)
        else:
            parameter.zero_()


def save_adapter(tensors: Mapping[str, torch.Tensor], file: Path) -> None:
    """Write the adapters' tensors `tensors` to `file`, in safetensors."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, file)


def load_adapter(own: Mapping[str, torch.Tensor], file: Path) -> None:
    """Load the adapters' tensors from `file`, which `save_adapter` wrote, into the tensors `own`. The values are exact.

    Raises:
        UsageError: the tensors in the file belong to other layers or another rank.
    """
    saved = load_file(file)
    if {name: tensor.shape for name, tensor in saved.items()} != {name: tensor.shape for name, tensor in own.items()}:
        raise UsageError(f"{file} holds adapters of other layers or another rank than this model's; was the model replaced?")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(saved[name])


def adapter_tensors(policy: Any) -> dict[str, torch.nn.Parameter]:
    """Return the parameters of the adapters of `policy`, by name."""
    return {name: parameter for name, parameter in policy.named_parameters() if ".lora_" in name}


def merged_weights(
    policy: Any, whole: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.detach
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, parameter) of the base model in fp32, with adapters merged: W + (alpha / rank) B A.

    4-bit weights are dequantised, so the result is the policy that was trained. The policy is not changed.

    Args:
        policy: a model with adapters.
        whole: returns the full value of a parameter of the base, which may be sharded.
    """
    base = policy.get_base_model()
    for name, parameter in base.named_parameters():
        if ".lora_" in name:
            continue
        owner, wrapped, rest = name.rpartition(".base_layer.")
        weight = _dequantised(parameter, whole(parameter))
        if wrapped and rest == "weight":
            weight = weight + base.get_submodule(owner).get_delta_weight(ADAPTER).detach().to(weight.dtype)
        yield (f"{owner}.{rest}" if wrapped else name), weight


def _dequantised(parameter: Any, tensor: torch.Tensor) -> torch.Tensor:
    if getattr(parameter, "quant_state", None) is not None:
        tensor = need("bitsandbytes", "lora_base: 4bit").functional.dequantize_4bit(tensor, parameter.quant_state)
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def plain_config(config: Any) -> Any:
    """Return a copy of the model configuration `config` without quantisation, for merged weights."""
    plain = copy.deepcopy(config)
    if hasattr(plain, "quantization_config"):
        del plain.quantization_config
    return plain


def save_merged(policy: Any, folder: Path) -> None:
    """Write the merged model in fp32 to `folder`, for transformers, and the adapters into `adapter/` in it, for peft.

    The merged copy is made in CPU memory, four bytes per parameter.
    """
    base = policy.get_base_model()
    with torch.device("meta"):
        plain = type(base)(plain_config(base.config))
    plain.load_state_dict({name: weight.cpu() for name, weight in merged_weights(policy)}, strict=False, assign=True)
    plain.tie_weights()
    absent = [name for name, parameter in plain.named_parameters() if parameter.is_meta]
    if absent:
        raise RuntimeError(f"no weights for {absent[:3]} of {type(base).__name__}: its parameters have other names when merged")
    plain.generation_config = base.generation_config
    plain.save_pretrained(folder)
    policy.save_pretrained(folder / "adapter", save_embedding_layers=False)
