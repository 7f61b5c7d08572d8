"""Settings of the model: adapters, numeric precision of weights and optimizer state, and GPU kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from verigym.trainer.config.frozen import Frozen


class ChatFields(Frozen):
    """Settings of the chat template."""

    chat_template_kwargs: Mapping[str, JsonValue] = {}
    """Variables for the tokenizer's chat template, such as `{enable_thinking: false}` for Qwen3; see
    [chat templates](training.md#chat-templates). A name that the template does not use is refused."""


class OptimizerFields(Frozen):
    """Settings of the precision of the optimizer's state."""

    optimizer: Literal["adamw", "adamw_8bit"] = "adamw"
    """adamw_8bit stores Adam's two moments in 8 bits (arXiv 2110.02861), except for tensors with fewer than 4,096 elements."""


class AdapterFields(OptimizerFields):
    """Settings of LoRA adapters and of the base's precision. Adapters have no dropout, so that sampler and trainer agree."""

    lora_rank: int = Field(default=0, ge=0)
    """Rank of the adapters that are trained in place of the model's weights (LoRA, arXiv 2106.09685); 0 trains the weights."""
    lora_alpha: float = Field(default=32.0, gt=0, allow_inf_nan=False)
    """With lora_rank: the adapters' product is multiplied by lora_alpha / lora_rank."""
    lora_targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """With lora_rank: which layers get an adapter. all-linear means all linear layers except the head; or give a list of names,
    such as [q_proj, v_proj]."""
    lora_base: Literal["fp32", "bf16", "4bit"] = "fp32"
    """With lora_rank: precision of the frozen weights. bf16 and 4bit (QLoRA's NF4, arXiv 2305.14314) need dtype bf16."""

    @model_validator(mode="after")
    def _adapters_are_consistent(self) -> Self:
        for name in ("lora_alpha", "lora_targets", "lora_base"):
            if not self.lora_rank and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} is about adapters; set lora_rank above 0, such as 16, or leave it out")
        if not self.lora_targets:
            raise ValueError("lora_targets is empty; name layers such as q_proj, or leave it out for all linear ones")
        return self


class ShardFields(Frozen):
    """Settings of how several processes (torchrun) divide the model. A run may be resumed with another value."""

    shard: Literal["optimizer", "full"] = "optimizer"
    """optimizer: while it samples and updates, each process holds the weights and gradients of the whole model. full: each
    process holds only its share of the model, and the weights of a whole layer only while that layer runs."""


class KernelFields(Frozen):
    """Settings of optimisations that need a GPU. They change results by rounding only."""

    cuda_graphs: bool | None = None
    """Whether engine native decodes in buffers of a fixed size and replays CUDA graphs. When left out, it does so on CUDA. true
    is refused on other devices."""
    liger: bool = False
    """Liger's kernels for RMS norms, rotary positions and gated MLPs of the Llama family; CUDA only, extra `liger`."""
