"""The settings of what only a GPU has: recorded steps of decoding, and fused kernels in the model's layers."""

from __future__ import annotations

from verigym.trainer.config.frozen import Frozen


class KernelFields(Frozen):
    """What makes a GPU quicker. Results are the same but for rounding."""

    cuda_graphs: bool | None = None
    """Engine native decodes in fixed buffers and replays CUDA graphs; on with CUDA when left out, refused without it."""
    liger: bool = False
    """Liger's kernels for RMS norms, rotary positions and gated MLPs of the Llama family; CUDA only, extra `liger`."""
