"""Our side: the parts that the training loop puts together, put together in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from trainer_parts import setting
from trainer_parts.reward import Parity
from trainer_parts.setting import Shape, codec, make_model, prompt_text
from verigym import Grader
from verigym.trainer.advantages.group import grpo
from verigym.trainer.config.run import TrainConfig
from verigym.trainer.credit.rows import Credit, training_rows
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.engines.native.generate import generate
from verigym.trainer.learner.update import Objective, accumulate
from verigym.trainer.losses.token_level import clipped
from verigym.trainer.rollout.collect import Group, collect
from verigym.trainer.tasks.mixture import Source

# What the losses of the other side are called here.
AGGREGATION = {"grpo": "sequence_mean", "dapo": "token_mean", "dr_grpo": "fixed_length"}


class Ours:
    """A policy with its optimizer and its graders.

    Args:
        shape: of a step.
        loss: by the other side's name.
        budget: most tokens of one forward and backward pass; the trainer's default where left out.
        environment: whose verdicts are the rewards.
        workers: grading processes; one, because the rewards of the other side are computed in one process too.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        loss: str = "dapo",
        budget: int = TrainConfig.model_fields["micro_batch_tokens"].default,
        environment: Parity | None = None,
        workers: int = 1,
    ) -> None:
        self.shape, self.budget = shape, budget
        self.on_gpu = setting.DEVICE.type == "cuda"
        self.dtype = "bf16" if self.on_gpu else "fp32"
        self.codec = codec()
        self.model = make_model(shape)
        self.environment = environment or Parity()
        self.source = Source(self.environment.name, self.environment, 1.0, self.prompt, ())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6, betas=(0.9, 0.99), weight_decay=0.0)
        self.objective = Objective(
            loss=clipped, aggregation=AGGREGATION[loss], max_new_tokens=shape.new_tokens, temperature=1.0
        )
        self.grader = Grader(self.environment, workers=workers)
        self.lengths: list[int] = []

    def prompt(self, index: int) -> Any:
        """Return prompt number `index`."""
        return self.environment.prompt(prompt_text(index, self.shape.prompt_tokens))

    def rollout(self, step: int) -> list[Group]:
        """Generate and grade the completions of a step."""
        tasks = [(self.source, self.prompt(step * self.shape.prompts + place)) for place in range(self.shape.prompts)]
        groups = collect(
            NativeEngine(self.model, self.codec, rows_at_a_time=512, dtype=self.dtype, static_cache=self.on_gpu),
            self.codec,
            lambda source: self.grader,
            tasks,
            samples=self.shape.group,
            key=("benchmark", step),
            max_new_tokens=self.shape.new_tokens,
            temperature=1.0,
        )
        self.lengths += [len(done.token_ids) for group in groups for done in group.generated]
        return groups

    def gradient(self, rows: Sequence[TrainingRow]) -> dict[str, float]:
        """Compute the gradient of a batch, from zero."""
        self.optimizer.zero_grad(set_to_none=True)
        return accumulate(
            self.model, rows, self.objective, token_budget=self.budget, pad_id=self.codec.pad_id, dtype=self.dtype
        )

    def step(self, number: int) -> None:
        """Take one whole step, from prompts to new weights."""
        groups = self.rollout(number)
        credit = {self.source.label: Credit(grpo)}
        by_group = training_rows(groups, credit, self.codec, mask_truncated=False)
        if "loss" in self.gradient([row for rows in by_group for row in rows]):
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()

    def generate(self, step: int) -> int:
        """Generate as `rollout` does, without grading, and return the number of tokens."""
        prompts = [self.codec.encode(self.prompt(step * self.shape.prompts + place)) for place in range(self.shape.prompts)]
        groups = generate(
            self.model,
            prompts,
            [[("benchmark", step, place, g) for g in range(self.shape.group)] for place in range(self.shape.prompts)],
            max_new_tokens=self.shape.new_tokens,
            temperature=1.0,
            eos_ids=self.codec.eos_ids,
            pad_id=self.codec.pad_id,
        )
        return sum(len(done.token_ids) for group in groups for done in group)

    def close(self) -> None:
        """End the grading processes."""
        self.grader.close()
