"""Log-probabilities and entropies from hidden states, in chunks, so that logits of all tokens are never in memory at once.

Legend: N tokens of a micro-batch, C of them in a chunk, H hidden size, V vocabulary.

A chunk's logits are dropped as soon as its log-probabilities are taken. The backward pass needs them again, which costs one
more product with the output matrix. This product is saved in two cases:

- All tokens fit into one chunk. Then its log-softmax is kept for the backward pass.
- The gradient with respect to the log-probabilities can be predicted, as in the first update on a batch, where the ratio is 1.
  Then the forward pass computes from it the gradients of hidden states and output matrix. The backward pass repeats this only
  for tokens whose prediction was wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

CHUNK_BYTES = {"cpu": 2**25, "cuda": 2**28}
"""Most bytes of a chunk's logits, by type of device. A GPU needs large matrix products to be fully used."""


def token_entropy(logp_V: torch.Tensor) -> torch.Tensor:
    """Return the entropy `-sum p log p` of each distribution p over the vocabulary.

    Args:
        logp_V: log-probabilities `[..., V]`, the log-softmax of logits that were divided by the temperature, in nats; -inf
            for tokens of probability 0.

    Returns:
        Entropies `[...]`, in nats, from 0 to log V, with a gradient.
    """
    # A probability of 0 has an infinite logarithm; their product is 0, and so is its gradient.
    return -(logp_V.exp() * logp_V.clamp(min=-1e4)).sum(dim=-1)


@dataclass(frozen=True)
class Head:
    """The output layer of a model, which turns the last hidden state h into logits: `cap tanh(scale (W h + b) / cap)`.

    W is `weight_VH` and b is `bias_V`. Without a cap (None), logits are `scale (W h + b)`.
    """

    weight_VH: torch.Tensor
    bias_V: torch.Tensor | None
    scale: float = 1.0
    cap: float | None = None


@dataclass(frozen=True)
class ExpectedGradient:
    """A prediction of the gradient of the loss with respect to each token's log-probability and entropy.

    With this prediction, a chunk's gradient can be computed in the forward pass, while its logits are in memory.
    """

    logp_N: torch.Tensor
    entropy_N: torch.Tensor


def find_head(model: Any) -> Head | None:
    """Return the output layer of a transformers causal language model as a `Head`; None if the layer is not a plain `Linear`.

    Scale and cap are guessed from names of settings that some models use, so the result must be checked against the model's
    logits; see `forward.usable_head`.
    """
    layer = model.get_output_embeddings()
    if type(layer) is not torch.nn.Linear:
        return None
    settings = model.config.get_text_config()
    scale = float(getattr(settings, "logit_scale", None) or 1.0) / float(getattr(settings, "logits_scaling", None) or 1.0)
    return Head(layer.weight, layer.bias, scale, getattr(settings, "final_logit_softcapping", None))


def chunk_tokens(vocabulary: int, device: str, number_bytes: int = 4) -> int:
    """Return how many tokens fit into a chunk on `device`, with `vocabulary` logits of `number_bytes` bytes each."""
    return max(16, CHUNK_BYTES.get(device, CHUNK_BYTES["cuda"]) // (max(4, number_bytes) * vocabulary))


def token_logprobs(
    hidden_NH: torch.Tensor,
    head: Head,
    tokens_N: torch.Tensor,
    *,
    temperature: float = 1.0,
    chunk: int | None = None,
    dtype: torch.dtype | None = None,
    entropy: bool = False,
    expected: ExpectedGradient | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (logp_N, entropy_N) of tokens under the head's distribution, in nats; both carry gradients.

    Args:
        hidden_NH: the model's last hidden states, each at the position before its token.
        head: see `find_head`.
        tokens_N: the tokens.
        temperature: temperature of the sampler; 0 counts as 1.
        chunk: number of tokens whose logits are in memory at the same time; None for `chunk_tokens`.
        dtype: dtype of the product with the output matrix; None for the matrix's own. Sums over the vocabulary are in float32
            or wider.
        entropy: if False, entropies are not computed and are 0.
        expected: the gradient expected in the backward pass; None for no expectation. If the expectation is wrong, the result
            is the same, but the backward pass takes longer.

    Raises:
        ValueError: the shapes do not fit.
    """
    if hidden_NH.shape != (len(tokens_N), head.weight_VH.shape[1]):
        raise ValueError(f"hidden_NH: expected shape {[len(tokens_N), head.weight_VH.shape[1]]}, got {list(hidden_NH.shape)}")
    dtype = dtype or head.weight_VH.dtype
    chunk_math = _ChunkMath(dtype, head.scale, head.cap, temperature or 1.0, entropy)
    weight_VH = head.weight_VH
    chunk = chunk or chunk_tokens(weight_VH.shape[0], weight_VH.device.type, weight_VH.element_size())
    result: tuple[torch.Tensor, torch.Tensor] = _TokenLogprobs.apply(  # type: ignore[no-untyped-call]
        hidden_NH, head.weight_VH, head.bias_V, tokens_N, chunk_math, chunk, expected if torch.is_grad_enabled() else None
    )
    return result


@dataclass(frozen=True)
class _ChunkMath:
    """Computations on one chunk. It holds no tensors, so that autograd sees all of them as arguments."""

    dtype: torch.dtype
    scale: float
    cap: float | None
    temperature: float
    entropy: bool

    def log_softmax(
        self, hidden_CH: torch.Tensor, weight_VH: torch.Tensor, bias_V: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return (logsoft_CV, slope_CV): the log-softmax, and the derivative of the cap's tanh (None without a cap)."""
        logits_CV = torch.nn.functional.linear(hidden_CH, weight_VH, bias_V)
        logits_CV = logits_CV.to(torch.promote_types(self.dtype, torch.float32))
        slope_CV = None
        factor = self.scale / self.temperature
        if self.cap is not None:
            logits_CV = torch.tanh(logits_CV.mul_(self.scale / self.cap))
            slope_CV = 1 - logits_CV.square()
            factor = self.cap / self.temperature
        if factor != 1:
            logits_CV.mul_(factor)
        return torch.log_softmax(logits_CV, dim=-1), slope_CV

    def entropies(self, logsoft_CV: torch.Tensor) -> torch.Tensor:
        return token_entropy(logsoft_CV) if self.entropy else torch.zeros_like(logsoft_CV[:, 0])

    def gradient(
        self, logsoft_CV: torch.Tensor, slope_CV: torch.Tensor | None, tokens_C: torch.Tensor, incoming: ExpectedGradient
    ) -> torch.Tensor:
        """Return the loss's gradient with respect to the product with the output matrix. `logsoft_CV` is overwritten."""
        if self.entropy:
            # The clamp: a probability of 0 has an infinite logarithm, and their product is 0.
            deviation_CV = logsoft_CV.clamp(min=-1e4) + self.entropies(logsoft_CV)[:, None]
            result_CV = logsoft_CV.exp_().mul_(-(incoming.logp_N[:, None] + incoming.entropy_N[:, None] * deviation_CV))
        else:
            result_CV = logsoft_CV.exp_().mul_(-incoming.logp_N[:, None])
        result_CV.scatter_add_(1, tokens_C[:, None], incoming.logp_N[:, None])
        factor = self.scale / self.temperature
        if factor != 1:
            result_CV.mul_(factor)
        if slope_CV is not None:
            result_CV.mul_(slope_CV)
        return result_CV.to(self.dtype)


class _GradientSums:
    """Gradients, summed chunk by chunk; None for inputs that need no gradient."""

    def __init__(self, hidden_NH: torch.Tensor, weight_VH: torch.Tensor, bias_V: torch.Tensor | None, needed: Any) -> None:
        self.hidden_NH = torch.zeros_like(hidden_NH) if needed[0] else None
        self.weight_VH = torch.zeros_like(weight_VH) if needed[1] else None
        self.bias_V = torch.zeros_like(bias_V) if needed[2] and bias_V is not None else None

    def add(self, numbers: Any, gradient_CV: torch.Tensor, hidden_CH: torch.Tensor, weight_VH: torch.Tensor) -> None:
        if self.hidden_NH is not None:
            self.hidden_NH[numbers] += gradient_CV @ weight_VH
        if self.weight_VH is not None:
            if self.weight_VH.dtype == gradient_CV.dtype:
                self.weight_VH.addmm_(gradient_CV.t(), hidden_CH)
            else:
                self.weight_VH += gradient_CV.t() @ hidden_CH
        if self.bias_V is not None:
            self.bias_V += gradient_CV.sum(0)


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[torch.Tensor, torch.Tensor]:
        hidden_NH, weight_VH, bias_V, tokens_N, chunk_math, chunk, expected = args
        cast_NH, cast_VH, cast_V = _cast(chunk_math.dtype, hidden_NH, weight_VH, bias_V)
        sums = _GradientSums(hidden_NH, weight_VH, bias_V, ctx.needs_input_grad) if expected is not None else None
        logps, entropies = [], []
        kept = None
        for start in range(0, len(tokens_N), chunk):
            numbers = slice(start, start + chunk)
            tokens_C = tokens_N[numbers]
            logsoft_CV, slope_CV = chunk_math.log_softmax(cast_NH[numbers], cast_VH, cast_V)
            logps.append(logsoft_CV.gather(1, tokens_C[:, None])[:, 0])
            entropies.append(chunk_math.entropies(logsoft_CV))
            if sums is not None:
                incoming = ExpectedGradient(expected.logp_N[numbers], expected.entropy_N[numbers])
                gradient_CV = chunk_math.gradient(logsoft_CV, slope_CV, tokens_C, incoming)
                sums.add(numbers, gradient_CV, cast_NH[numbers], cast_VH)
            elif len(tokens_N) <= chunk and any(ctx.needs_input_grad[:3]):
                kept = (logsoft_CV, slope_CV)
        ctx.save_for_backward(hidden_NH, weight_VH, bias_V, tokens_N)
        ctx.chunk_math, ctx.chunk, ctx.expected, ctx.sums, ctx.kept = chunk_math, chunk, expected, sums, kept
        empty = cast_NH.new_zeros(0, dtype=torch.promote_types(chunk_math.dtype, torch.float32))
        return torch.cat([*logps, empty]), torch.cat([*entropies, empty])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *arrived: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden_NH, weight_VH, bias_V, tokens_N = ctx.saved_tensors
        missing, sums = ExpectedGradient(*arrived), ctx.sums
        if sums is None:
            sums = _GradientSums(hidden_NH, weight_VH, bias_V, ctx.needs_input_grad)
        else:
            missing = ExpectedGradient(missing.logp_N - ctx.expected.logp_N, missing.entropy_N - ctx.expected.entropy_N)
        todo = ((missing.logp_N != 0) | (missing.entropy_N != 0)).nonzero()[:, 0]
        if len(todo):
            cast_NH, cast_VH, cast_V = _cast(ctx.chunk_math.dtype, hidden_NH, weight_VH, bias_V)
            if ctx.kept is not None:
                todo = torch.arange(len(tokens_N), device=todo.device)
            for numbers in torch.split(todo, ctx.chunk):
                hidden_CH, tokens_C = cast_NH[numbers], tokens_N[numbers]
                logsoft_CV, slope_CV = ctx.kept or ctx.chunk_math.log_softmax(hidden_CH, cast_VH, cast_V)
                incoming = ExpectedGradient(missing.logp_N[numbers], missing.entropy_N[numbers])
                sums.add(numbers, ctx.chunk_math.gradient(logsoft_CV, slope_CV, tokens_C, incoming), hidden_CH, cast_VH)
        ctx.sums = ctx.kept = None
        return sums.hidden_NH, sums.weight_VH, sums.bias_V, None, None, None, None


def _cast(dtype: torch.dtype, *tensors: torch.Tensor | None) -> tuple[Any, ...]:
    return tuple(None if tensor is None else tensor.to(dtype) for tensor in tensors)
