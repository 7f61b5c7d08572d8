"""verl's own reward managers, its loader of custom functions and its agent loop. Prints one line of JSON."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import warnings
from pathlib import Path
from typing import Any

from adapter_environments import MIXTURE, WITH_TOOLS

from verigym.adapters import open_sources
from verigym.adapters import verl as ours
from verigym.envs import Completion, run_episode

if __name__ == "__main__":  # worker processes import this file, and need none of it
    warnings.simplefilter("ignore")
    import numpy as np
    import torch
    from omegaconf import OmegaConf
    from tensordict import TensorDict
    from verl import DataProto
    from verl.experimental.agent_loop import agent_loop as theirs
    from verl.trainer.ppo.reward import load_reward_manager
    from verl.workers.rollout.replica import TokenOutput

    from verigym.trainer.models.scratch import scratch_tokenizer

FUNCTION = """
from adapter_environments import MIXTURE
from verigym.adapters import verl
compute_score = verl.compute_score(MIXTURE, unscored={unscored}, workers=0, retries=0)
"""
TEMPLATE = (
    "{% if tools %}{% for tool in tools %}{{ tool['function']['name'] }} {% endfor %}{{ '\\n' }}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] }}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
END = "<|im_end|>"
GAMES = {"sources": [{"environment": "number_guessing", "options": {"guesses": 3}}]}
GARBAGE = ("no", "", "12", "17", r"\boxed{3}")


def tokenizer() -> Any:
    made = scratch_tokenizer(["What is 3 + 4? \\boxed{7}", "<tool_call>\n{}\n</tool_call>"] * 3, 400, template=TEMPLATE)
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"], "eos_token": END})
    return made


def batch(codec: Any, row: dict[str, Any], text: str) -> DataProto:
    prompt, answer = codec("?")["input_ids"], [*codec(text)["input_ids"], codec.eos_token_id]
    answer += [codec.pad_token_id] * 3
    mask = [1] * (len(prompt) + len(answer) - 3) + [0] * 3
    return DataProto(
        batch=TensorDict(
            {
                "prompts": torch.tensor([prompt]),
                "responses": torch.tensor([answer]),
                "attention_mask": torch.tensor([mask]),
            },
            batch_size=1,
        ),
        non_tensor_batch={name: np.array([row[name]], dtype=object) for name in ("data_source", "reward_model", "extra_info")},
    )


def managers(codec: Any) -> dict[str, Any]:
    """Score items with both reward managers that call a function, loaded as verl loads it."""
    sources = open_sources(MIXTURE)
    rows = list(ours.rows(sources, 32))
    found: dict[str, Any] = {"scored": 0, "equal": 0, "unscored": 0}
    for name, number in (("naive", -0.5), ("dapo", 0.0)):
        Path(f"{name}.py").write_text(FUNCTION.format(unscored=number))
        manager = load_reward_manager(_config(f"{name}.py", name), codec)
        for row in rows:
            label, task = sources.task(row["extra_info"]["verigym"])
            gold = sources.environments[label].gold(task)
            for text in (gold, *GARBAGE):
                assert text is not None
                theirs_ = manager.loop.run_until_complete(manager.run_single(batch(codec, row, text)))
                score = sources.environments[label].score(task, text)
                expected = number if score.reward is None else score.reward
                found["scored"] += 1
                found["equal"] += theirs_["reward_score"] == expected
                found["unscored"] += score.reward is None
                assert theirs_["reward_extra_info"]["unscored"] == float(score.reward is None)
    Path("stop.py").write_text(FUNCTION.format(unscored='"stop"'))
    manager = load_reward_manager(_config("stop.py", "naive"), codec)
    half = next(row for row in rows if row["data_source"] == "half")
    environment, task = sources.environments["half"], sources.task(half["extra_info"]["verigym"])[1]
    failing = next(text for text in map(str, range(100)) if environment.score(task, text).reward is None)
    try:
        manager.loop.run_until_complete(manager.run_single(batch(codec, half, failing)))
        found["stops"] = ""
    except Exception as error:
        found["stops"] = f"{type(error).__name__}: {error}"
    return found


def _config(path: str, manager: str) -> Any:
    return OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": {"path": str(Path(path).resolve()), "name": "compute_score", "reward_kwargs": {}},
                "reward_manager": {"source": "register", "name": manager},
                "reward_kwargs": {},
            }
        }
    )


class Server:
    """Writes what a script says, as verl's client of a server returns it."""

    def __init__(self, codec: Any) -> None:
        self.codec, self.asked = codec, []
        self.script: Any = None
        """Texts to say, one after the other, whatever is asked."""

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: Any, **more: Any) -> Any:
        text = self.codec.decode(prompt_ids)
        self.asked.append(text)
        if self.script is not None:
            said = next(self.script)
        elif "<|im_start|>tool" in text:
            seen = text.rpartition("<|im_start|>tool\n")[2].partition(END)[0]
            said = rf"\boxed{{{seen}}}"
        elif text.startswith("calculator"):
            question = text.rpartition("<|im_start|>user\n")[2].partition(END)[0]
            expression = question.replace("=?", "").replace("What is ", "").strip(" ?")
            said = f'<tool_call>{{"name": "calculator", "arguments": {{"expression": "{expression}"}}}}</tool_call>'
        elif text.startswith("away"):
            said = '<tool_call>{"name": "away", "arguments": {"number": 3}}</tool_call>'
        else:
            said = r"\boxed{5}"
        ids = [*self.codec(said)["input_ids"], self.codec.eos_token_id]
        return TokenOutput(token_ids=ids, log_probs=[-0.25] * len(ids))


def loop_of(kind: Any, server: Server, codec: Any, response_length: int) -> Any:
    """An agent loop as verl's worker makes one for each row."""
    config = OmegaConf.create(
        {
            "actor_rollout_ref": {"rollout": {"prompt_length": 400, "response_length": response_length}},
            "data": {"apply_chat_template_kwargs": {}},
        }
    )
    return kind(
        trainer_config=theirs.DictConfigWrap(config),
        server_manager=server,
        tokenizer=codec,
        processor=None,
        dataset_cls=None,
        data_config=theirs.DictConfigWrap(config.data),
        hf_model_type="qwen3",
    )


async def games(codec: Any) -> dict[str, Any]:
    """Play a game: the environment answers texts, and the model guesses one number after the other."""
    kind = ours.agent_loop(GAMES, unscored="stop", workers=1, max_turns=4)
    sources = open_sources(GAMES)
    found: dict[str, Any] = {"episodes": 0, "equal": 0, "turns": [], "read": 0}
    for row in ours.rows(sources, 4):
        _, task = sources.task(row["extra_info"]["verigym"])
        environment: Any = sources.environments["number_guessing"]
        number = environment.reference(task).number
        guesses = [rf"\boxed{{{number - distance}}}" for distance in range(row["extra_info"]["index"], -1, -1)]
        said = iter(guesses)
        done = run_episode(environment, task, lambda messages, said=said: next(said), max_turns=4)
        server = Server(codec)
        server.script = iter(guesses)
        output = await loop_of(kind, server, codec, 300).run({}, raw_prompt=row["prompt"], **row)
        read = codec.decode([one for one, mask in zip(output.response_ids, output.response_mask, strict=True) if not mask])
        found["episodes"] += 1
        found["equal"] += output.reward_score == environment.score(task, done).reward
        found["turns"].append(output.num_turns)
        found["read"] += read.count("Higher.") == len(guesses) - 1 and all(text in server.asked[-1] for text in guesses[:-1])
    return found


async def loops(codec: Any, response_length: int, unscored: Any) -> dict[str, Any]:
    """Play episodes in verl's agent loop."""
    kind = ours.agent_loop(WITH_TOOLS, unscored=unscored, workers=1)
    assert issubclass(kind, theirs.AgentLoopBase)
    server = Server(codec)
    sources = open_sources(WITH_TOOLS)
    found: dict[str, Any] = {"episodes": 0, "equal": 0, "masked": 0, "read": 0, "unscored": 0, "right_with_tool": 0}
    for row in ours.rows(sources, 12):
        loop = loop_of(kind, server, codec, response_length)
        output = await loop.run({"temperature": 1.0}, raw_prompt=row["prompt"], **row)
        assert len(output.response_ids) == len(output.response_mask) == len(output.response_logprobs) <= response_length
        label, task = sources.task(row["extra_info"]["verigym"])
        written = [one for one, mask in zip(output.response_ids, output.response_mask, strict=True) if mask]
        text = codec.decode(written).rpartition("</tool_call>" + END)[2].removesuffix(END)
        ours_ = sources.environments[label].score(task, Completion(text=text, finish_reason=None)).reward
        failed = output.extra_fields["reward_extra_info"]["unscored"]
        found["episodes"] += 1
        found["equal"] += output.reward_score == (unscored if failed else ours_)
        found["unscored"] += failed
        found["read"] += row["data_source"] == "tools" and 0 in output.response_mask
        found["masked"] += all(
            logprob == (-0.25 if mask else 0.0)
            for logprob, mask in zip(output.response_logprobs, output.response_mask, strict=True)
        )
        found["right_with_tool"] += label == "tools" and output.reward_score == 1.0
        output.as_dict()
    found["template_has_tools"] = any(text.startswith("calculator") for text in server.asked)
    return found


if __name__ == "__main__":
    made = tokenizer()
    result = {
        "version": importlib.metadata.version("verl"),
        "managers": managers(made),
        "agent_loop": asyncio.run(loops(made, 300, 0.125)),
        "games": asyncio.run(games(made)),
        "cut_off": asyncio.run(loops(made, 40, 0.125)),
    }
    print(json.dumps(result))
