"""One decoding step of the Llama family over the model's own weights, in fewer and larger operations than the model's modules.

Legend: B rows, H query heads, K key heads, D head size, E hidden size, V vocabulary, L positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from verigym.trainer.logprobs.forward import decoder

FAMILY = ("llama", "mistral", "qwen2", "qwen3")
"""Supported values of `model_type`: RMS norms, rotary positions, gated MLP, no sliding windows."""
FIXED_ROTATIONS = ("default", "linear", "llama3", "yarn")
"""Types of rotary positions whose angles do not depend on the sequence length."""
COPY_BELOW = 2**22
"""Weight matrices with the same input are joined and transposed into a copy if together they have fewer elements than this.
With few rows, a CPU multiplies the copy up to twice as fast. Copies of larger matrices would need too much memory."""

Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Attention: takes (layer, query_BHD, key_BKD, value_BKD) of new tokens and returns the attended values `[B, H, D]`."""


class LlamaStep:
    """Runs one decoding step of a Llama-like model, with the weights as they were when this object was made.

    After an update of the model, make a new object.
    """

    def __init__(self, model: Any, positions: int) -> None:
        """Read the weights of `model`.

        Args:
            model: a transformers causal language model for which `unknown_parts` returns an empty string; it may have adapters.
            positions: most tokens of a prompt and its completion.
        """
        body = decoder(model)
        config, device = body.config, body.embed_tokens.weight.device
        wide = body.embed_tokens.weight.dtype
        self.dtype = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else wide
        """Dtype of products and of the cache; the residual stream keeps the weights' dtype."""
        attention = body.layers[0].self_attn
        self.heads, self.head_size = config.num_attention_heads, attention.head_dim
        self.key_heads = config.num_key_value_heads
        self.scale = attention.scaling
        self.embed, self.norm = body.embed_tokens, body.norm
        self.layers = [_Layer(layer, self.dtype, self.heads, self.key_heads) for layer in body.layers]
        self.head = _Product([(model.get_base_model() if hasattr(model, "get_base_model") else model).lm_head], self.dtype)
        self._rotary, self._wide = body.rotary_emb, wide
        self._turn(positions, device)

    @property
    def copied_bytes(self) -> int:
        """Return the bytes of the weights that are held as copies, transposed or in another dtype."""
        products = [product for layer in self.layers for product in (layer.qkv, layer.out, layer.gate_up, layer.down)]
        return sum(product.copied_bytes for product in [*products, self.head])

    def _turn(self, positions: int, device: torch.device) -> None:
        angles = self._rotary(self.norm.weight.to(self._wide), torch.arange(positions, device=device)[None])
        self.cos_LD, sine_LD = (part[0] for part in angles)
        half = self.head_size // 2
        # Rotation subtracts the second half from the first: the sign is put into the sine, once.
        self.sin_LD = torch.cat([-sine_LD[:, :half], sine_LD[:, half:]], dim=1)

    def reach(self, positions: int) -> None:
        """Prepare for up to `positions` tokens of a prompt and its completion."""
        if positions > len(self.cos_LD):
            self._turn(max(positions, 2 * len(self.cos_LD)), self.cos_LD.device)

    def __call__(self, token_B: torch.Tensor, position_B: torch.Tensor, attend: Attend) -> torch.Tensor:
        """Return the logits `[B, V]` after the tokens `token_B`, one per row, at `position_B`."""
        return self.head(self.hidden(token_B, position_B, attend))

    def hidden(self, token_B: torch.Tensor, position_B: torch.Tensor, attend: Attend) -> torch.Tensor:
        """Return the hidden states `[B, E]` of the tokens `token_B`.

        Several tokens may belong to one row if `attend` knows which tokens each of them may attend to.
        """
        x_BE = self.embed(token_B)
        cos_B1D, sin_B1D = self.cos_LD[position_B, None], self.sin_LD[position_B, None]
        rotated = self.heads + self.key_heads
        for number, layer in enumerate(self.layers):
            heads_BXD = layer.qkv(layer.norm_before(x_BE)).view(len(token_B), -1, self.head_size)
            turn_BXD = heads_BXD[:, :rotated].to(cos_B1D.dtype)
            if layer.head_norm_XD is not None:
                turn_BXD = _normed(turn_BXD, layer.head_eps) * layer.head_norm_XD
            turn_BXD = turn_BXD * cos_B1D + turn_BXD.roll(self.head_size // 2, -1) * sin_B1D
            query_BHD, key_BKD = torch.split(turn_BXD.to(self.dtype), [self.heads, self.key_heads], dim=1)
            found_BHD = attend(number, query_BHD, key_BKD, heads_BXD[:, rotated:])
            x_BE = x_BE + layer.out(found_BHD.flatten(1))
            gate, up = layer.gate_up(layer.norm_after(x_BE)).chunk(2, dim=1)
            x_BE = x_BE + layer.down(layer.act(gate) * up)
        states_BE: torch.Tensor = self.norm(x_BE)
        return states_BE


class _Layer:
    def __init__(self, layer: Any, dtype: torch.dtype, heads: int, key_heads: int) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.norm_before, self.norm_after = layer.input_layernorm, layer.post_attention_layernorm
        self.qkv = _Product([attention.q_proj, attention.k_proj, attention.v_proj], dtype)
        self.out = _Product([attention.o_proj], dtype)
        self.gate_up = _Product([mlp.gate_proj, mlp.up_proj], dtype)
        self.down = _Product([mlp.down_proj], dtype)
        self.act = mlp.act_fn
        self.head_norm_XD = None
        if hasattr(attention, "q_norm"):
            self.head_eps = attention.q_norm.variance_epsilon
            norms = [attention.q_norm.weight.expand(heads, -1), attention.k_norm.weight.expand(key_heads, -1)]
            self.head_norm_XD = torch.cat(norms)


class _Product:
    """Linear modules with the same input, computed as one product; their outputs are concatenated."""

    def __init__(self, modules: Sequence[Any], dtype: torch.dtype) -> None:
        self.parts: list[Callable[[torch.Tensor], torch.Tensor]] = list(modules)
        self.weight_EX: torch.Tensor | None = None
        self.copied_bytes = 0
        biases: list[Any] = [module.bias for module in modules if type(module) is nn.Linear]
        if len(biases) < len(modules) or len({bias is None for bias in biases}) > 1:
            return  # such as with adapters
        weights: list[torch.Tensor] = [module.weight.detach() for module in modules]
        few = sum(weight.numel() for weight in weights) < COPY_BELOW
        if few or weights[0].dtype != dtype or len(weights) == 1:
            weight_XE = (torch.cat(weights) if len(weights) > 1 else weights[0]).to(dtype)
            self.weight_EX = weight_XE.t().contiguous() if few else weight_XE.t()
            self.copied_bytes = 0 if weight_XE is weights[0] and not few else weight_XE.nbytes
            self.bias = None if biases[0] is None else torch.cat(biases).to(dtype)

    def __call__(self, x_BE: torch.Tensor) -> torch.Tensor:
        if self.weight_EX is None:
            found = [part(x_BE) for part in self.parts]
            return found[0] if len(found) == 1 else torch.cat(found, dim=-1)
        x_BE = x_BE.to(self.weight_EX.dtype)
        return x_BE @ self.weight_EX if self.bias is None else torch.addmm(self.bias, x_BE, self.weight_EX)


def _normed(x_BXD: torch.Tensor, eps: float) -> torch.Tensor:
    """Return the vectors of `x_BXD` divided by their root mean square, computed in float32 as in transformers."""
    y_BXD = x_BXD.float()
    return (y_BXD * torch.rsqrt(y_BXD.pow(2).mean(-1, keepdim=True) + eps)).to(x_BXD.dtype)


def unknown_parts(model: Any) -> str:
    """Return the reason why `LlamaStep` does not support `model`; an empty string if no reason is known."""
    body = decoder(model)
    if any(isinstance(parameter, DTensor) for parameter in body.parameters()):
        return "its layers are gathered one at a time"
    config = getattr(body, "config", None)
    kind = getattr(config, "model_type", "")
    if kind not in FAMILY:
        return f"its kind is {kind}"
    kinds = {type(layer) for layer in DynamicCache(config=config).layers}
    if kinds - {DynamicLayer}:
        return f"its layers keep {', '.join(sorted(kind.__name__ for kind in kinds))}"
    rotation = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rotation not in FIXED_ROTATIONS:
        return f"its positions are {rotation}"
    return ""
