"""Reward models loaded through transformers, once per process, run in batches. torch and transformers are imported when needed.

The policy's text never goes through the chat template. Instead, the template is rendered with a stand-in for this text. The
result is split at the stand-in, and the tokens of the text are put between the two parts. So the template cannot drop or
rewrite the thinking, no control token written in the text can end the turn, and the number of tokens left for the text is known
exactly.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Message, sha256_hex
from verigym.envs.extras import install
from verigym.envs.model_fingerprint import fingerprint, missing_folder
from verigym.envs.openmp import bound_spinning

Device = Literal["auto", "cpu", "cuda", "mps"]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]

_STAND_IN = sha256_hex("the answer stands here")[:24]
# What some templates write before an answer that came without thinking; before a whole trace it would be a second thinking.
_EMPTY_THINKING = "<think>\n\n</think>\n\n"
_NO_LIMIT = 10**9
_loading = threading.Lock()


@dataclass(frozen=True)
class Framed:
    """Tokens of a conversation around the text to be judged."""

    before: list[int]
    text: list[int]
    after: list[int]

    @property
    def frame(self) -> int:
        """Tokens that are not the text's."""
        return len(self.before) + len(self.after)


class RewardModel:
    """A model with one output, and its tokenizer.

    Calls run one at a time, because fast tokenizers keep settings between calls.
    """

    def __init__(self, model: Any, tokenizer: Any, device: str) -> None:
        self._model, self._tokenizer, self._device = model, tokenizer, device
        self._lock = threading.Lock()
        config = model.config.get_text_config()
        self._pad: int | None = config.pad_token_id
        positions = getattr(config, "max_position_embeddings", None)
        self.max_positions: int = positions if isinstance(positions, int) and positions > 0 else _NO_LIMIT

    def frame(self, messages: Sequence[Message], text: str, *, whole: bool) -> Framed:
        """Return the tokens of the conversation `messages` with `text` as the assistant's last turn.

        Raises:
            EnvironmentFailure: the tokenizer has no chat template, or its template does not render this turn.
        """
        turns = [{"role": message.role, "content": message.content} for message in messages]
        if not self._tokenizer.chat_template:
            raise EnvironmentFailure("unavailable", "reward_model: the tokenizer has no chat template; add one to its folder")
        try:
            filled = self._tokenizer.apply_chat_template([*turns, {"role": "assistant", "content": _STAND_IN}], tokenize=False)
        except Exception as error:  # a template raises what it likes, here about roles and never about the policy's text
            raise EnvironmentFailure("gold_invalid", f"reward_model: the chat template refuses the prompt: {error}") from None
        before, found, after = str(filled).rpartition(_STAND_IN)
        if not found:
            raise EnvironmentFailure("unavailable", "reward_model: the chat template does not show the assistant's turn")
        if whole:
            before = before.removesuffix(_EMPTY_THINKING)
        with self._lock:
            return Framed(self._tokens(before), self._tokens(text, plain=True), self._tokens(after))

    def values(self, rows: Sequence[Sequence[int]], batch_size: int) -> list[float]:
        """Return the model's output for each row of tokens, in order.

        Rows of similar length share a batch to reduce padding.
        """
        order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
        size = batch_size if self._pad is not None else 1
        found: dict[int, float] = {}
        with self._lock:
            for start in range(0, len(order), size):
                places = order[start : start + size]
                found.update(zip(places, self._forward([rows[n] for n in places]), strict=True))
        return [found[n] for n in range(len(rows))]

    def _forward(self, rows: Sequence[Sequence[int]]) -> list[float]:
        import torch

        longest = max(map(len, rows))
        ids = torch.full((len(rows), longest), self._pad or 0, dtype=torch.long)
        mask = torch.zeros((len(rows), longest), dtype=torch.long)
        for n, row in enumerate(rows):
            ids[n, : len(row)] = torch.tensor(row, dtype=torch.long)
            mask[n, : len(row)] = 1
        with torch.inference_mode():
            logits = self._model(input_ids=ids.to(self._device), attention_mask=mask.to(self._device)).logits
        return [float(value) for value in logits[:, 0].float().cpu()]

    def _tokens(self, text: str, *, plain: bool = False) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False, split_special_tokens=plain)["input_ids"])


def loaded(name: str, revision: str | None, device: Device, dtype: Dtype, weights: str = "") -> RewardModel:
    """Return the reward model called `name`, which is loaded at the first call.

    Args:
        name: path of a folder, or a name on the hub.
        revision: revision on the hub.
        device: device on which the model runs.
        dtype: data type of the weights.
        weights: fingerprint that a local folder must have; empty for any.

    Raises:
        EnvironmentFailure: the model cannot be loaded, or is not a reward model; the message says what to do.
    """
    with _loading:  # two threads would load it twice
        return _load(name, revision, device, dtype, weights)


@functools.lru_cache(maxsize=2)
def _load(name: str, revision: str | None, device: Device, dtype: Dtype, weights: str) -> RewardModel:
    if not name:
        raise EnvironmentFailure("unavailable", "reward_model: set the option model to a folder or a name on the hub")
    if problem := missing_folder(name):
        raise EnvironmentFailure("unavailable", f"reward_model: option model: {problem}")
    bound_spinning()
    try:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
    except ImportError as error:
        raise EnvironmentFailure(
            "unavailable", f"reward_model needs torch and transformers ({error}); {install('torch')}"
        ) from None
    if weights and fingerprint(name) != weights:
        raise EnvironmentFailure(
            "unavailable",
            f"reward_model: the files of {name!r} have changed since the environment was made, whose verdicts "
            f"name the old ones; make it anew",
        )
    place = _device(device)
    if dtype == "auto":
        dtype = "float32" if place == "cpu" else "bfloat16"
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
        # safetensors only: the other format of weights runs code when it is read.
        model, info = AutoModelForSequenceClassification.from_pretrained(
            name, revision=revision, dtype=getattr(torch, dtype), use_safetensors=True, output_loading_info=True
        )
    except Exception as error:  # files, network, unknown architectures: each library of the chain raises its own
        why = " ".join(str(error).split())[:300]
        raise EnvironmentFailure(
            "unavailable", f"reward_model: {name!r} cannot be loaded ({type(error).__name__}: {why}); check the option model"
        ) from None
    if model.config.num_labels != 1:
        raise EnvironmentFailure(
            "unavailable", f"reward_model: {name!r} has {model.config.num_labels} labels; a reward model has one output"
        )
    missing = sorted(info["missing_keys"])
    if missing:  # transformers fills them with random numbers and goes on
        raise EnvironmentFailure(
            "unavailable", f"reward_model: the weights of {name!r} lack {missing[0]!r}; this is no reward model's checkpoint"
        )
    return RewardModel(model.eval().to(place), tokenizer, place)


def _device(device: Device) -> str:
    import torch

    if device != "auto":
        return device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
