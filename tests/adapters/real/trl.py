"""TRL's own GRPOTrainer: ten steps on `math`, ten on a mixture half of which fails, and episodes with tools.

Prints one line of JSON. Every reward is compared with `env.score`, and the advantages of a group's scored completions with
those that TRL computes for a group which never had the others.
"""

from __future__ import annotations

import copy
import json
import math
import random
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from adapter_environments import MIXTURE, WITH_TOOLS

import verigym
from verigym.adapters import trl
from verigym.envs import Completion

if __name__ == "__main__":  # worker processes import this file, and need none of it
    import torch
    import trl as peer
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from verigym.trainer.models.scratch import scratch_qwen3, scratch_tokenizer
else:
    GRPOTrainer = object

GROUP = 8
STEPS = 10
END = "<|im_end|>"
TOLERANCE = 1e-6
CALL = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'


def tokenizer() -> Any:
    texts = ["What is 3 + 4? \\boxed{7}", "How many metres are 3 km?", '<tool_call>\n{"name": "calculator"}\n</tool_call>'] * 3
    template = Path(peer.__file__).parent / "chat_templates/qwen3.jinja"
    made = scratch_tokenizer(texts, 400, template=template.read_text())
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"], "eos_token": END})
    return made


def model_of(codec: Any) -> Any:
    """A tiny model that has learnt to answer with a boxed digit, mostly."""
    model = scratch_qwen3(codec, hidden_size=32, layers=2, heads=2, intermediate_size=64, max_positions=1024, seed=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    draw = random.Random(0)
    start = codec.apply_chat_template(
        [{"role": "user", "content": "What?"}], add_generation_prompt=True, enable_thinking=False, return_dict=False
    )
    for _ in range(80):
        rows = [[*start, *codec(rf"\boxed{{{draw.randint(0, 9)}}}{END}")["input_ids"]] for _ in range(8)]
        ids = torch.tensor(rows)
        loss = model(input_ids=ids, labels=torch.where(torch.arange(ids.shape[1]) < len(start), -100, ids)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


class Recorded(GRPOTrainer):
    """Keeps what TRL made of each batch."""

    kept: list[dict[str, Any]]
    given: tuple[Any, ...] | None = None
    """What is generated, where it is not the model's."""

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self.scored = {
            "inputs": copy.deepcopy(inputs),
            "completions": copy.deepcopy(completions),
            "ids": completion_ids_list,
            "rewards": rewards[:, 0].tolist(),
            "episodes": [getattr(one, "_episode", None) for one in self.environments or [None] * len(prompts)],
        }
        return rewards

    def _generate(self, prompts: Any) -> Any:
        return super()._generate(prompts) if self.given is None else self.given

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        self.scored["advantages"] = output["advantages"].tolist()
        self.kept.append(self.scored)
        return output


def trainer_of(
    rewards: Any, rows: Sequence[dict[str, Any]], codec: Any, model: Any, kind: type[Recorded] = Recorded, **more: Any
) -> Recorded:
    config = GRPOConfig(
        output_dir="out",
        per_device_train_batch_size=2 * GROUP,
        num_generations=GROUP,
        max_completion_length=more.pop("max_completion_length", 12),
        max_steps=more.pop("steps", STEPS),
        learning_rate=1e-3,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        chat_template_kwargs={"enable_thinking": False},
        seed=0,
        **more.pop("config", {}),
    )
    made = kind(
        model=model,
        reward_funcs=rewards,
        args=config,
        train_dataset=Dataset.from_list(list(rows)),
        processing_class=codec,
        **more,
    )
    made.kept = []
    return made


def same(ours: float | None, theirs: float) -> bool:
    return math.isnan(theirs) if ours is None else abs(ours - theirs) < TOLERANCE


def compared(kept: Sequence[dict[str, Any]], score: Callable[[Any, Any, int], float | None]) -> dict[str, int]:
    """Compare TRL's rewards with ours."""
    found = {"rewards": 0, "equal": 0, "none": 0, "different_in_a_group": 0}
    for batch in kept:
        for number, theirs in enumerate(batch["rewards"]):
            ours = score(batch["inputs"][number], batch["completions"][number], number)
            found["rewards"] += 1
            found["equal"] += same(ours, theirs)
            found["none"] += ours is None
        for start in range(0, len(batch["rewards"]), GROUP):
            found["different_in_a_group"] += len(set(map(str, batch["rewards"][start : start + GROUP]))) > 1
    return found


def siblings(trainer: Recorded) -> dict[str, Any]:
    """Compare advantages with those that TRL computes without the unscored completions."""
    groups, worst, zero = 0, 0.0, True
    for batch in list(trainer.kept):
        for start in range(0, len(batch["rewards"]), GROUP):
            places = [at for at in range(start, start + GROUP) if not math.isnan(batch["rewards"][at])]
            failed = [at for at in range(start, start + GROUP) if at not in places]
            zero &= all(batch["advantages"][at] == 0.0 for at in failed)
            if not failed or not places:
                continue
            ids = [batch["ids"][at] for at in places]
            texts = [batch["completions"][at] for at in places]
            trainer.given = ([[1]] * len(places), ids, None, texts, None, {}, None, [])
            trainer.num_generations = len(places)
            trainer._generate_and_score_completions([batch["inputs"][at] for at in places])
            again = trainer.kept.pop()["advantages"]
            worst = max(worst, *(abs(batch["advantages"][at] - other) for at, other in zip(places, again, strict=True)))
            groups += 1
    trainer.given, trainer.num_generations = None, GROUP
    return {"groups_with_failures": groups, "worst_difference": worst, "failed_have_zero": zero}


def on_math(codec: Any, model: Any) -> dict[str, Any]:
    draw = random.Random(1)
    pairs = [(draw.randint(0, 4), draw.randint(0, 5)) for _ in range(60)]
    rows = [{"prompt": [{"role": "user", "content": f"What is {a} + {b}?"}], "answer": str(a + b)} for a, b in pairs]
    environment = verigym.load("math")
    with trl.reward_function("math", workers=1) as rewards:
        trainer = trainer_of(rewards, rows, codec, model)
        trainer.train()

    def score(row: Any, completion: Any, number: int) -> float | None:
        return environment.score(environment.prompt(row["prompt"], answer=row["answer"]), completion).reward

    return {"steps": trainer.state.global_step, **compared(trainer.kept, score)}


def on_a_mixture(codec: Any, model: Any) -> dict[str, Any]:
    with trl.reward_function(MIXTURE, workers=1) as rewards, warnings.catch_warnings():
        trainer = trainer_of(rewards, list(rewards.rows(120)), codec, model, config={"temperature": 1.3})
        trainer.train()
        sources = rewards.scorer.sources

        def score(row: Any, completion: Any, number: int) -> float | None:
            label, task = sources.task(row["verigym"])
            return sources.environments[label].score(task, completion).reward

        found = compared(trainer.kept, score)
        logged = [one for one in trainer.state.log_history if any("no_reward" in name for name in one)]
        return {"steps": trainer.state.global_step, "logged": len(logged), **found, **siblings(trainer)}


class Scripted(Recorded):
    """Writes calls where the prompt has tools, and answers with what they return, two times of three."""

    def _generate_single_turn(self, prompt_ids: Any, *rest: Any, **more: Any) -> Any:
        said = [self._said(self._tokenizer.decode(ids), place) for place, ids in enumerate(prompt_ids)]
        return [self._tokenizer(text + END)["input_ids"] for text in said], None

    def _said(self, text: str, place: int) -> str:
        self.asked.append(text)
        if "<tool_response>" in text:
            seen = text.rpartition("<tool_response>\n")[2].partition("\n</tool_response>")[0]
            return rf"\boxed{{{seen}}}" if place % 3 else r"\boxed{1}"
        if '"calculator"' in text:
            question = text.rpartition("<|im_start|>user\n")[2].partition(END)[0]
            return CALL % ("calculator", json.dumps({"expression": question.replace("=?", "").strip()}))
        return CALL % ("away", '{"number": 1}') if '"away"' in text and place % 2 else r"\boxed{5}"

    def _calculate_rewards(self, *given: Any) -> Any:
        rewards = super()._calculate_rewards(*given)
        self.scored["played"] = [None if one is None else one.completion() for one in self.scored["episodes"]]
        return rewards


def with_tools(codec: Any, model: Any) -> dict[str, Any]:
    with trl.reward_function(WITH_TOOLS, workers=1) as rewards, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the hook is experimental
        more = {"steps": 3, "max_completion_length": 200, "environment_factory": rewards.environments()}
        trainer: Any = trainer_of(rewards, list(rewards.rows(24)), codec, model, kind=Scripted, **more)
        trainer.asked = []
        trainer.train()
        sources = rewards.scorer.sources
        found = {"rewards": 0, "equal": 0, "none": 0, "right_with_tool": 0, "turns": 0}
        for batch in trainer.kept:
            for row, completion, played, theirs in zip(
                batch["inputs"], batch["completions"], batch["played"], batch["rewards"], strict=True
            ):
                label, task = sources.task(row["verigym"])
                done = Completion.of(completion) if played is None else played
                ours = sources.environments[label].score(task, done).reward
                found["rewards"] += 1
                found["equal"] += same(ours, theirs)
                found["none"] += ours is None
                found["turns"] += len(done.turns)
                found["right_with_tool"] += label == "tools" and ours == 1.0
        return {
            "steps": trainer.state.global_step,
            "told_of_tools": any('"calculator"' in text for text in trainer.asked),
            "plain_told_of_none": any("calculator" not in text and "away" not in text for text in trainer.asked),
            **found,
            **siblings(trainer),
        }


if __name__ == "__main__":
    torch.manual_seed(0)
    codec = tokenizer()
    model = model_of(codec)
    print(
        json.dumps(
            {
                "version": peer.__version__,
                "math": on_math(codec, copy.deepcopy(model)),
                "mixture": on_a_mixture(codec, copy.deepcopy(model)),
                "tools": with_tools(codec, copy.deepcopy(model)),
            }
        )
    )
