"""TRL on the quickstart's set-up: the same tasks, verdicts, learning rate and schedule."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from verigym.trainer.config.run import TrainConfig
from verigym.trainer.tasks.mixture import Mixture, Source


def train_with_trl(
    model: Any,
    tokenizer: Any,
    sources: Sequence[Source],
    config: TrainConfig,
    measure: Callable[[Any, float], None],
    every: int,
) -> None:
    """Train the model in place.

    Args:
        model: after the cold start.
        tokenizer: its tokenizer.
        sources: of the tasks, drawn from in the order of our own run.
        config: our run's settings; TRL gets those that it has too.
        measure: is called with the model and the number of tokens sampled so far.
        every: so many steps.
    """
    mixture = Mixture(sources, config.seed)
    tasks = []
    for step in range(config.steps):
        for source in mixture.plan(step, config.prompts_per_step):
            tasks.append((source, mixture.draw(source, lambda prompt: True)))
    tokens = 0

    def reward(completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], task: Sequence[int], **_: Any) -> list[Any]:
        nonlocal tokens
        tokens += sum(map(len, completion_ids))
        return [
            tasks[number][0].environment.score(tasks[number][1], messages[0]["content"]).reward
            for messages, number in zip(completions, task, strict=True)
        ]

    class Measure(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % every == 0 or state.global_step == config.steps:
                model.eval()
                measure(model, tokens)
                model.train()

    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=[reward],
            args=GRPOConfig(
                output_dir=folder,
                seed=config.seed,
                per_device_train_batch_size=config.group_size,
                gradient_accumulation_steps=config.prompts_per_step,
                num_generations=config.group_size,
                max_completion_length=config.max_new_tokens,
                temperature=config.temperature,
                top_k=0,
                beta=0.0,
                loss_type="dapo",
                learning_rate=config.learning_rate,
                lr_scheduler_type="linear",
                warmup_steps=config.warmup_steps,
                adam_beta1=config.adam_betas[0],
                adam_beta2=config.adam_betas[1],
                weight_decay=config.weight_decay,
                max_grad_norm=config.max_grad_norm,
                max_steps=config.steps,
                shuffle_dataset=False,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                dataloader_pin_memory=False,
                logging_strategy="no",
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list(
                [
                    {"prompt": [message.model_dump() for message in prompt.messages], "task": number}
                    for number, (_, prompt) in enumerate(tasks)
                ]
            ),
            processing_class=tokenizer,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Measure())
        trainer.train()
