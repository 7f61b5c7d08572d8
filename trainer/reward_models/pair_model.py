"""The Bradley-Terry model while it is trained (a sequence classifier with one output), and the tokens of its pairs.

An answer is presented to the model by the same code as in the `reward_model` environment, so that training and scoring agree.

Legend: B rows, T tokens (padded on the right).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, Score
from verigym.envs.judge.judged_text import read
from verigym.envs.reward_model.model import RewardModel
from verigym.trainer.logprobs.forward import autocast
from verigym.trainer.models.loading import load_model
from verigym.trainer.reward_models.config import RewardModelConfig
from verigym.trainer.reward_models.figures import PairRow
from verigym.trainer.reward_models.pairs import Preference
from verigym.trainer.rng import keyed_int
from verigym.trainer.stages.step_run import StepRun

logger = logging.getLogger("verigym.trainer")
MAX_CHARS = 200_000
"""The environment's default: longer texts are not judged."""


@dataclass(frozen=True)
class PairTokens:
    """A pair of answers in tokens, each with prompt and template."""

    chosen: tuple[int, ...]
    rejected: tuple[int, ...]
    margin: float
    row: PairRow

    @property
    def longest(self) -> int:
        """Return the number of tokens of the prompt with the longer of the two answers."""
        return max(len(self.chosen), len(self.rejected))


@dataclass(frozen=True)
class LeftOut:
    """Counts of the pairs that are left out, by reason."""

    too_long: int = 0
    """Pairs with more tokens than max_tokens, or than the model has positions."""
    unreadable: int = 0
    """Pairs with a text that the environment would not judge: it has no answer after the thinking, or too many characters."""
    alike: int = 0
    """The model would read the same text for both answers."""


class RewardModelRun(StepRun):
    """The training run of a reward model, which is a sequence classifier with one output."""

    config: RewardModelConfig

    def load(self, checkpoint: Path | None) -> tuple[Any, Any]:
        """Return the model and its tokenizer, from `checkpoint` if it is given.

        A language model gets a new head, whose weights depend on the seed alone.
        """
        how: dict[str, Any] = {"auto": transformers.AutoModelForSequenceClassification, "num_labels": 1}
        with _quiet():  # transformers reports that the head is new
            model, tokenizer = load_model(checkpoint / "model" if checkpoint else self.config.model, self.device, **how)
        text = model.config.get_text_config()
        if text.pad_token_id is None:
            known = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
            text.pad_token_id = model.config.pad_token_id = next(token for token in known if token is not None)
        body = f"{model.base_model_prefix}."
        head = {name: parameter for name, parameter in model.named_parameters() if not name.startswith(body)}
        if not any("SequenceClassification" in name for name in model.config.architectures or ()):  # of the files
            new_head_weights(head, self.config.seed)
        if self.config.trained == "head":
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(name in head)
        self.shown = RewardModel(model, tokenizer, str(self.device))
        return model, tokenizer

    def save(self, folder: Path) -> None:
        """Write the classifier and its tokenizer to `folder`."""
        self.export(folder / "model")

    def export(self, folder: Path) -> None:
        """Write the classifier to `folder` so that the `reward_model` environment can load it."""
        self.model.save_pretrained(folder)
        self.codec.tokenizer.save_pretrained(folder)


@contextmanager
def _quiet() -> Iterator[None]:
    level = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers.utils.logging.set_verbosity(level)


def new_head_weights(head: dict[str, torch.nn.Parameter], seed: int) -> None:
    """Draw the weights of `head` from N(0, 1 / (inputs + 1)), keyed by `seed`; biases are 0.

    Stiennon et al. do the same (arXiv 2009.01325, appendix).
    """
    with torch.no_grad():
        for name, parameter in head.items():
            generator = torch.Generator().manual_seed(keyed_int(seed, "reward model", name))
            scale = (parameter.shape[-1] + 1) ** -0.5 if parameter.ndim > 1 else 0.0
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)


def tokenized(config: RewardModelConfig, run: RewardModelRun, pairs: Sequence[Preference]) -> tuple[list[PairTokens], LeftOut]:
    """Return the pairs as tokens, and counts of the pairs left out by reason, such as being too long.

    Prompts and answers are encoded as the `reward_model` environment does.

    Raises:
        UsageError: the tokenizer has no chat template, or it refuses a prompt.
    """
    most = min(config.max_tokens, run.shown.max_positions)
    found, too_long, unreadable, alike = [], 0, 0, 0
    for pair in pairs:
        rows = [_row(config, run.shown, pair, text) for text in (pair.chosen, pair.rejected)]
        chosen, rejected = rows
        if chosen is None or rejected is None:
            unreadable += 1
        elif chosen == rejected:
            alike += 1
        elif max(len(chosen), len(rejected)) > most:
            too_long += 1
        else:
            compared = PairRow(pair.key, len(chosen), len(rejected), pair.chosen_shown_first)
            found.append(PairTokens(chosen, rejected, pair.margin, compared))
    left_out = LeftOut(too_long, unreadable, alike)
    if len(found) < len(pairs):
        logger.warning("%d of %d pairs are left out: %s", len(pairs) - len(found), len(pairs), asdict(left_out))
    return found, left_out


def _row(config: RewardModelConfig, shown: RewardModel, pair: Preference, text: str) -> tuple[int, ...] | None:
    seen = read(Completion(text=text), config.reads, "judge", MAX_CHARS)
    if isinstance(seen, Score):
        return None
    try:
        framed = shown.frame(pair.messages, seen, whole=config.reads == "whole")
    except EnvironmentFailure as failure:
        raise UsageError(f"model: {failure}") from None
    return (*framed.before, *framed.text, *framed.after)


def outputs(run: RewardModelRun, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return the model's outputs `[B]`, one for each of the B token sequences in `rows`."""
    length = max(map(len, rows))
    ids_BT = torch.full((len(rows), length), run.model.config.get_text_config().pad_token_id, dtype=torch.long)
    mask_BT = torch.zeros_like(ids_BT)
    for number, row in enumerate(rows):
        ids_BT[number, : len(row)] = torch.tensor(row)
        mask_BT[number, : len(row)] = 1
    with autocast(run.device, run.config.dtype):
        logits = run.model(input_ids=ids_BT.to(run.device), attention_mask=mask_BT.to(run.device)).logits
    found: torch.Tensor = logits[:, 0].float()
    return found
