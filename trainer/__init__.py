"""The trainer, from verdicts to gradients: GRPO on a weighted mixture of environments. Needs the extra `verigym[train]`."""

from verigym.envs.openmp import bound_spinning
from verigym.trainer.config.run import SourceConfig, TrainConfig, build_config, read_config

__all__ = ["Interrupted", "SourceConfig", "TrainConfig", "build_config", "read_config", "train"]

bound_spinning()


def __getattr__(name: str) -> object:
    """Return `train` or `Interrupted`, which are imported at first use.

    They import the training loop and torch, which are not needed to check configurations.
    """
    if name in ("Interrupted", "train"):
        from verigym.trainer import loop
        from verigym.trainer.monitoring import progress

        return loop.train if name == "train" else progress.Interrupted
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
