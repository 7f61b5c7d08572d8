"""Losses between a student and a teacher: pure functions, exact over the vocabulary or estimated from sampled tokens.

Legend: N tokens, C of them in a chunk, V vocabulary, H and K hidden sizes of student and teacher, B rows, T tokens.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch.utils.checkpoint import checkpoint

from verigym.trainer.logprobs.chunked import Head, chunk_tokens

Direction = Literal["forward", "reverse"]


def kl_of_logits(student_NV: torch.Tensor, teacher_NV: torch.Tensor, direction: Direction = "forward") -> torch.Tensor:
    """Return KL_N, the divergence between student and teacher at each token, in nats.

    `forward` is `KL(teacher || student) = sum_v p_t (log p_t - log p_s)`: the student covers everything the teacher may say
    (Hinton et al., arXiv 1503.02531). `reverse` is `KL(student || teacher)`: the student concentrates on what the teacher
    says most often (MiniLLM, arXiv 2306.08543; GKD, arXiv 2306.13649). No gradient flows into the teacher.

    Args:
        student_NV: logits of the student, already divided by the temperature.
        teacher_NV: logits of the teacher, already divided by the temperature.
        direction: `forward` or `reverse`.

    Raises:
        ValueError: the shapes differ, or the direction is unknown.
    """
    if student_NV.shape != teacher_NV.shape or student_NV.ndim != 2:
        raise ValueError(f"logits must both be [N, V]; got {list(student_NV.shape)} and {list(teacher_NV.shape)}")
    if direction not in ("forward", "reverse"):
        raise ValueError(f"direction {direction!r} is unknown; known: forward, reverse")
    student_NV = torch.log_softmax(student_NV, dim=-1)
    teacher_NV = torch.log_softmax(teacher_NV.detach(), dim=-1)
    if direction == "forward":
        return (teacher_NV.exp() * (teacher_NV - student_NV)).sum(-1)
    return (student_NV.exp() * (student_NV - teacher_NV)).sum(-1)


def chunked_kl(
    student_NH: torch.Tensor,
    student_head: Head,
    teacher_NK: torch.Tensor,
    teacher_head: Head,
    *,
    direction: Direction = "forward",
    temperature: float = 1.0,
    chunk: int | None = None,
) -> torch.Tensor:
    """Return KL_N as `kl_of_logits` does, but from last hidden states: logits of all tokens are never in memory at once.

    A chunk's logits are freed once its divergences are computed; the backward pass computes them again. Gradients flow into
    the student's hidden states and head alone.

    Args:
        student_NH: last hidden states, each at the position before its token.
        student_head: turns the student's hidden states into logits.
        teacher_NK: last hidden states of the teacher at the same positions.
        teacher_head: turns the teacher's hidden states into logits.
        direction: see `kl_of_logits`.
        temperature: both logits are divided by it.
        chunk: number of tokens whose logits are in memory at a time; None chooses it by the vocabulary.

    Raises:
        ValueError: the numbers of tokens or the vocabularies differ.
    """
    if len(student_NH) != len(teacher_NK):
        raise ValueError(f"the student has {len(student_NH)} tokens and the teacher {len(teacher_NK)}")
    sizes = student_head.weight_VH.shape[0], teacher_head.weight_VH.shape[0]
    if sizes[0] != sizes[1]:
        raise ValueError(f"the student's vocabulary has {sizes[0]} tokens and the teacher's {sizes[1]}")
    # Half of what one model's logits may take, because there are two.
    size = chunk or max(16, chunk_tokens(sizes[0], student_NH.device.type) // 2)

    def part(student_CH: torch.Tensor, teacher_CK: torch.Tensor) -> torch.Tensor:
        logits = (logits_of(student_CH, student_head), logits_of(teacher_CK, teacher_head))
        return kl_of_logits(logits[0] / temperature, logits[1] / temperature, direction)

    pieces = zip(torch.split(student_NH, size), torch.split(teacher_NK.detach(), size), strict=True)
    return torch.cat([checkpoint(part, *piece, use_reentrant=False) for piece in pieces])


def logits_of(hidden_CH: torch.Tensor, head: Head) -> torch.Tensor:
    """Return the logits `[C, V]` that `head` computes from `hidden_CH`, in float32 or wider."""
    logits = torch.nn.functional.linear(hidden_CH.to(head.weight_VH.dtype), head.weight_VH, head.bias_V)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) * head.scale
    return logits if head.cap is None else head.cap * torch.tanh(logits / head.cap)


def reverse_kl_advantages(student_logp_BT: torch.Tensor, teacher_logp_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Return each sampled token's advantage, `log p_teacher - log p_student`: minus the one-sample estimate of the reverse KL.

    A policy gradient with these advantages, without rewards of later tokens, gives the student a signal at each token of its
    own samples. This is on-policy distillation as in GKD (arXiv 2306.13649) and in the recipe of Thinking Machines ("On-Policy
    Distillation", 2025). No gradient flows into the advantages. Padding gets 0.

    Args:
        student_logp_BT: log-probabilities of the sampled tokens under the policy that sampled them, in nats.
        teacher_logp_BT: the same under the teacher.
        mask_BT: True on real tokens.

    Raises:
        ValueError: the shapes differ.
    """
    if not student_logp_BT.shape == teacher_logp_BT.shape == mask_BT.shape:
        shapes = [list(tensor.shape) for tensor in (student_logp_BT, teacher_logp_BT, mask_BT)]
        raise ValueError(f"expected three tensors [B, T]; got {shapes}")
    return (teacher_logp_BT - student_logp_BT).detach().masked_fill(~mask_BT, 0.0)
