"""vLLM servers of several training processes (torchrun): the first pushes weights, each requests completions of its prompts."""

from __future__ import annotations

from pathlib import Path

from verigym.trainer.distributed.full_shards import lock_step_of
from verigym.trainer.distributed.world import World
from verigym.trainer.engines.vllm.remote import VllmServerEngine
from verigym.trainer.engines.vllm.server import Weights
from verigym.trainer.engines.weights import policy_weights


class SharedServersEngine(VllmServerEngine):
    """Engine of one of several training processes that share the vLLM servers. All processes must call `sync` together.

    If a server restarts, the process that notices it first pushes the weights again, from the files of the first process. For
    processes on several machines, these files must therefore be in a shared folder, `vllm_weights_dir`.
    """

    world: World

    def sync(self) -> None:
        """Push the policy's weights to every server, once for all processes.

        Raises:
            UsageError: a server stays unreachable, or does not fit this policy.
        """
        if self.world.main:
            super().sync()
        elif lock_step_of(self.model) is not None:
            for _ in policy_weights(self.model):  # the first process gathers and writes them
                pass
        pushed = self.world.first(self._pushed)
        if self.world.main:
            return
        self.run, self.pushes, files = pushed
        # Finds the version there, and learns the servers' limits.
        self.fleet.push(Weights(f"{self.run}-{self.pushes}", files, self.weights_dir is not None, self.shape))

    def _pushed(self) -> tuple[str, int, list[Path]]:
        weights, _ = self.weights[-1]
        return self.run, self.pushes, list(weights.files)

    def share(self, world: World) -> None:
        """Divide each server's number of concurrent requests evenly among the processes of `world`."""
        self.world = world
        self.requests = max(1, self.requests // world.size)
