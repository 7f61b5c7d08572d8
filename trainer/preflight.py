"""Checks of a training run that need no weights.

A run makes these checks when it begins. A pipeline makes them for all its stages before the first stage runs, so that it does
not spend hours before it reaches a stage that cannot start.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.envs.extras import install
from verigym.trainer.batches.builder import refuse_lost_signal
from verigym.trainer.config.engine import ENGINES
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.rows import credits_of
from verigym.trainer.distributed.torchrun import launched
from verigym.trainer.distributed.world import refuse_alone
from verigym.trainer.engines.native.cuda_graphs import wants_graphs
from verigym.trainer.learner.objective import choose_correction, choose_loss
from verigym.trainer.models.liger import refuse_liger_without_cuda
from verigym.trainer.models.loading import pick_device
from verigym.trainer.models.optional import need
from verigym.trainer.monitoring.trackers import require_trackers


def refuse_unstartable(config: TrainConfig, environments: Mapping[str, Environment] | None = None) -> None:
    """Check that a run's loss, correction, advantages and group selection fit each other. The machine does not matter.

    Settings without effect are refused earlier, when a `TrainConfig` is made (`config.checks`).

    Args:
        config: the run.
        environments: see `rows.credits_of`.

    Raises:
        UsageError: a setting does not fit; the message names the field, its value and the values that fit.
    """
    choose_loss(config)
    choose_correction(config)
    refuse_lost_signal(config, credits_of(config, environments))


def refuse_on_this_machine(config: TrainConfig) -> None:
    """Check that the processes, the device and the optional packages fit a run's settings.

    vLLM servers are not contacted, because they may be started later.

    Raises:
        UsageError: something is missing; the message names it and the field that needs it.
    """
    require_trackers(config.loggers)
    if (launched("WORLD_SIZE") or 1) > 1:
        refuse_alone(config)
    device = pick_device(config.device)
    wants_graphs(config.cuda_graphs, device)
    package = ENGINES[config.engine].package
    if package and find_spec(package) is None:  # vLLM starts threads when it is imported
        raise UsageError(f"engine: {config.engine} is not installed here; {install(package)}, or take engine native")
    if config.liger:
        refuse_liger_without_cuda(device)
        need("liger_kernel.transformers", "liger: true")
    if config.lora_rank:
        need("peft", "lora_rank")
    if config.lora_base == "4bit":
        need("bitsandbytes", "lora_base: 4bit")
    if config.optimizer == "adamw_8bit":
        need("bitsandbytes", "optimizer: adamw_8bit")
