"""The other side: TRL's GRPOTrainer as its users run it without vLLM.

Its settings are the quickest that we found for this work: no gradient checkpointing (TRL's default turns it on), eight rows a
forward pass (TRL's default; 4, 16 and 32 were no quicker), nothing logged or saved. On a GPU, 32 rows a pass, in bf16
as on our side.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from trainer_parts import setting
from trainer_parts.reward import parity
from trainer_parts.setting import Shape, codec, make_model, prompt_text
from verigym.trainer.credit.training_row import TrainingRow


class Theirs:
    """A GRPOTrainer.

    Args:
        shape: of a step.
        loss: TRL's `loss_type`.
        rows_at_a_time: of one forward and backward pass.
        checkpointing: whether activations are computed twice to save memory, as TRL's default has it.
        steps: that `train_in_turns` will take.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        loss: str = "dapo",
        rows_at_a_time: int = 8,
        checkpointing: bool = False,
        steps: int = 1,
    ) -> None:
        self.shape = shape
        self.rows_at_a_time = rows_at_a_time
        self.codec = codec()
        self.lengths: list[int] = []
        self.folder = tempfile.TemporaryDirectory()
        on_gpu = setting.DEVICE.type == "cuda"
        settings = GRPOConfig(
            output_dir=self.folder.name,
            per_device_train_batch_size=self.rows_at_a_time,
            gradient_accumulation_steps=shape.rows // self.rows_at_a_time,
            num_generations=shape.group,
            max_completion_length=shape.new_tokens,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            beta=0.0,
            epsilon=0.2,
            loss_type=loss,
            scale_rewards="group",
            learning_rate=1e-6,
            adam_beta2=0.99,
            weight_decay=0.0,
            max_grad_norm=1.0,
            lr_scheduler_type="constant",
            max_steps=steps,
            shuffle_dataset=False,
            use_cpu=not on_gpu,
            bf16=on_gpu,
            gradient_checkpointing=checkpointing,
            dataloader_pin_memory=False,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        texts = [prompt_text(number, shape.prompt_tokens) for number in range(shape.prompts * steps)]
        self.trainer = GRPOTrainer(
            model=make_model(shape),
            reward_funcs=[self.reward],
            args=settings,
            train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": text}]} for text in texts]),
            processing_class=self.codec.tokenizer,
        )
        self.trainer.remove_callback(PrinterCallback)
        if checkpointing:  # `train` would turn it on; `gradient` does without `train`
            self.trainer.model.gradient_checkpointing_enable()

    def reward(self, completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        """The same reward as ours."""
        self.lengths += map(len, completion_ids)
        return [float(parity(messages[0]["content"])) for messages in completions]

    def train_in_turns(self, other: Callable[[int], object], clock: Callable[[], float]) -> tuple[list[float], list[float]]:
        """Train, with a step of `other` between two of its own, and return the seconds of each: (its own, the other's)."""
        turns = _Turns(other, clock)
        self.trainer.add_callback(turns)
        self.trainer.train()
        return turns.own, turns.others

    def gradient(self, rows: Sequence[TrainingRow]) -> None:
        """Compute the gradient of a batch, from zero, as `training_step` does."""
        trainer, model = self.trainer, self.trainer.model
        model.train()
        model.zero_grad(set_to_none=True)
        trainer.current_gradient_accumulation_steps = len(rows) // self.rows_at_a_time
        items = torch.tensor(sum(len(row.token_ids) for row in rows))
        inputs = self._inputs(rows)  # padded before it is split, as `_prepare_inputs` does
        for start in range(0, len(rows), self.rows_at_a_time):
            part = {name: values[start : start + self.rows_at_a_time] for name, values in inputs.items()}
            trainer.compute_loss(model, {**part, "num_items_in_batch": items}).backward()

    def _inputs(self, rows: Sequence[TrainingRow]) -> dict[str, torch.Tensor]:
        pad = self.codec.pad_id
        before, after = max(len(row.prompt_ids) for row in rows), max(len(row.token_ids) for row in rows)
        left = [before - len(row.prompt_ids) for row in rows]
        right = [after - len(row.token_ids) for row in rows]
        inputs = {
            "prompt_ids": [[pad] * gap + list(row.prompt_ids) for row, gap in zip(rows, left, strict=True)],
            "prompt_mask": [[0] * gap + [1] * (before - gap) for gap in left],
            "completion_ids": [list(row.token_ids) + [pad] * gap for row, gap in zip(rows, right, strict=True)],
            "completion_mask": [[1] * (after - gap) + [0] * gap for gap in right],
            "advantages": [row.advantage for row in rows],
        }
        if rows[0].old_logprobs is not None:
            inputs["old_per_token_logps"] = [
                list(row.old_logprobs or ()) + [0.0] * gap for row, gap in zip(rows, right, strict=True)
            ]
        return {name: torch.tensor(values) for name, values in inputs.items()}

    def close(self) -> None:
        """Remove the folder that a trainer must have."""
        self.folder.cleanup()


class _Turns(TrainerCallback):  # type: ignore[misc]
    def __init__(self, other: Callable[[int], object], clock: Callable[[], float]) -> None:
        self.other, self.clock = other, clock
        self.own: list[float] = []
        self.others: list[float] = []
        self.start = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.start = self.clock()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        end = self.clock()
        self.own.append(end - self.start)
        self.other(len(self.others))
        self.start = self.clock()
        self.others.append(self.start - end)
