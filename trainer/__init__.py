"""Verdicts to gradients: GRPO on a weighted mixture of environments. Needs the extra `[train]`."""

from verigym.trainer.config.run import SourceConfig, TrainConfig, build_config, read_config

__all__ = ["Interrupted", "SourceConfig", "TrainConfig", "build_config", "read_config", "train"]


def __getattr__(name: str) -> object:
    """Import the loop, and with it torch, only when it is asked for: configurations are checked without."""
    if name in ("Interrupted", "train"):
        from verigym.trainer import loop
        from verigym.trainer.monitoring import progress

        return loop.train if name == "train" else progress.Interrupted
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
