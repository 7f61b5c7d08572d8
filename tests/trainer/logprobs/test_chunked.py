"""Log-probabilities in chunks equal those from whole logits, in value and gradient, whatever gradient was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from verigym.trainer.logprobs.chunked import CHUNK_BYTES, ExpectedGradient, Head, chunk_tokens, token_logprobs

N, H, V = 7, 5, 11
TOKENS = torch.tensor([0, 10, 3, 3, 7, 1, 5])
Batch = Callable[..., torch.Tensor]


def tensors(batch: Batch) -> list[torch.Tensor]:
    """Hidden states, matrix and bias."""
    return [batch(name, *shape).requires_grad_() for name, shape in (("h", (N, H)), ("W", (V, H)), ("b", (V,)))]


def whole(hidden: Any, weight: Any, bias: Any, scale: float, cap: float | None, temperature: float) -> Any:
    logits = scale * (hidden @ weight.t() + bias)
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    choices = torch.distributions.Categorical(logits=logits / temperature)
    return choices.log_prob(TOKENS), choices.entropy()


@pytest.mark.parametrize("chunk", [1, 3, 100])
@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize("entropy", [False, True])
def test_equals_whole_logits(chunk: int, cap: float | None, entropy: bool, batch: Batch, assert_same: Any) -> None:
    inputs = tensors(batch)
    incoming = ExpectedGradient(batch("g", N), batch("e", N) if entropy else torch.zeros(N, dtype=torch.float64))
    wanted = whole(*inputs, 1.3, cap, 0.7)
    gradients = torch.autograd.grad(wanted, inputs, [incoming.logp_N, incoming.entropy_N])
    wrong = ExpectedGradient(incoming.logp_N + torch.eye(N, dtype=torch.float64)[2], incoming.entropy_N)
    for expected in (None, incoming, wrong):
        settings: dict[str, Any] = {"temperature": 0.7, "chunk": chunk, "entropy": entropy, "expected": expected}
        found = token_logprobs(inputs[0], Head(inputs[1], inputs[2], 1.3, cap), TOKENS, **settings)
        assert_same(found[0], wanted[0])
        assert_same(found[1], wanted[1] if entropy else torch.zeros(N))
        for one, other in zip(
            torch.autograd.grad(found, inputs, [incoming.logp_N, incoming.entropy_N]), gradients, strict=True
        ):
            assert_same(one, other)


@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize("chunk", [3, 100])
def test_gradcheck(chunk: int, cap: float | None, batch: Batch) -> None:
    def both(hidden: Any, weight: Any, bias: Any) -> Any:
        return token_logprobs(hidden, Head(weight, bias, 1.3, cap), TOKENS, temperature=0.7, chunk=chunk, entropy=True)

    # The backward pass skips tokens whose gradient is 0, so which rows share a product differs by rounding.
    assert torch.autograd.gradcheck(both, tensors(batch), nondet_tol=1e-12)


def test_a_matrix_that_stays_as_it_is_gets_no_gradient(batch: Batch, assert_same: Any) -> None:
    hidden, weight, bias = tensors(batch)
    frozen = Head(weight.detach(), bias.detach())
    logp, _ = token_logprobs(hidden, frozen, TOKENS, chunk=2, expected=ExpectedGradient(torch.ones(N).double(), torch.zeros(N)))
    logp.sum().backward()  # type: ignore[no-untyped-call]
    wanted, _ = whole(hidden, weight, bias, 1.0, None, 1.0)
    assert_same(hidden.grad, torch.autograd.grad(wanted.sum(), hidden)[0])
    assert frozen.weight_VH.grad is None


def test_one_matrix_for_tokens_and_logits_gets_both_gradients(batch: Batch, assert_same: Any) -> None:
    _, weight, _ = tensors(batch)
    gradients = []
    for chunk in (None, 2):
        hidden = torch.nn.functional.embedding(TOKENS, weight).tanh()
        head = Head(weight, None)
        if chunk is None:
            logp = torch.log_softmax(hidden @ weight.t(), -1).gather(1, TOKENS[:, None])[:, 0]
        else:
            logp, _ = token_logprobs(hidden, head, TOKENS, chunk=chunk)
        gradients.append(torch.autograd.grad(logp.sum(), weight)[0])
    assert_same(gradients[1], gradients[0])


def test_an_impossible_token_has_no_nan() -> None:
    hidden = torch.tensor([[1e4]], requires_grad=True)
    head = Head(torch.tensor([[1.0], [-1.0]]), None)
    logp, entropy = token_logprobs(hidden, head, torch.tensor([1]), entropy=True)
    assert logp.item() == -2e4
    assert entropy.item() == 0
    (logp + entropy).sum().backward()  # type: ignore[no-untyped-call]
    assert hidden.grad is not None
    assert hidden.grad.isfinite().all()


def test_no_tokens(batch: Batch) -> None:
    hidden, weight, _ = tensors(batch)
    logp, _ = token_logprobs(hidden[:0], Head(weight, None), TOKENS[:0])
    assert logp.shape == (0,)
    assert torch.autograd.grad(logp.sum(), weight)[0].abs().max() == 0


def test_shapes_are_checked(batch: Batch) -> None:
    hidden, weight, _ = tensors(batch)
    with pytest.raises(ValueError, match="hidden_NH: expected shape"):
        token_logprobs(hidden[:3], Head(weight, None), TOKENS)


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return out


@pytest.mark.parametrize("known", [False, True])
def test_tokens_times_vocabulary_is_never_in_memory(known: bool) -> None:
    tokens, size, vocabulary, chunk = 64, 4, 1000, 8
    hidden, weight = torch.randn(tokens, size).requires_grad_(), torch.randn(vocabulary, size).requires_grad_()
    expected = ExpectedGradient(torch.ones(tokens), torch.zeros(tokens)) if known else None
    with Largest() as largest:
        logp, _ = token_logprobs(hidden, Head(weight, None), torch.arange(tokens), chunk=chunk, expected=expected)
        logp.sum().backward()  # type: ignore[no-untyped-call]
    assert largest.numbers == chunk * vocabulary
    assert weight.grad is not None and weight.grad.norm() > 0


@pytest.mark.parametrize(("vocabulary", "tokens"), [(67, 125203), (32_000, 262), (151_936, 55), (10**7, 16)])
def test_the_chunk_is_chosen_by_the_vocabulary(vocabulary: int, tokens: int) -> None:
    assert chunk_tokens(vocabulary, "cpu") == tokens
    assert tokens == 16 or tokens * vocabulary * 4 <= CHUNK_BYTES["cpu"]
