"""A process reward model in training: a decoder with a two-class head at the end of each step.

Its architecture and files are those of Qwen2.5-Math-PRM (arXiv 2501.07301), so the `process` environment loads it with
`kind="qwen"`.

Legend: B rows, T tokens (padded on the right), H hidden size, N labelled steps of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import AddedToken

from verigym.envs.contract.errors import UsageError
from verigym.envs.process.conventions import CONVENTIONS, Convention, encode
from verigym.envs.process.heads import PREFIX, SINGLE, new_head, read_head
from verigym.trainer.logprobs.forward import decoder
from verigym.trainer.reward_models.labelled_solutions import LabelledSolution
from verigym.trainer.rng import keyed_int

CONVENTION: Convention = CONVENTIONS["qwen"]


@dataclass(frozen=True)
class StepTokens:
    """A solution in tokens, with the positions at which the labelled steps end."""

    token_ids: tuple[int, ...]
    places: tuple[int, ...]
    labels: tuple[float, ...]


class ProcessRewardModel(torch.nn.Module):
    """A decoder with a head that classifies each step as wrong or right."""

    def __init__(self, model: Any, tokenizer: Any, *, seed: int) -> None:
        """Put a head on a language model's decoder, and add the token that marks the end of a step to the vocabulary.

        The head's weights depend on the seed alone; the mark's embedding is initialised as the mean of all embeddings.

        Args:
            model: a causal language model of transformers, or its decoder; it is changed, not copied.
            tokenizer: the model's fast tokenizer; the mark is added if the tokenizer lacks it.
            seed: key of the head's weights.
        """
        super().__init__()
        self.model = decoder(model)
        self.tokenizer = tokenizer
        tokenizer.add_tokens([AddedToken(CONVENTION.tag, special=True, normalized=False)], special_tokens=True)
        _make_room(self.model, len(tokenizer))
        size = self.model.config.get_text_config().hidden_size
        self.score = new_head(size)
        generator = torch.Generator().manual_seed(keyed_int(seed, "process reward model", "head"))
        with torch.no_grad():
            for parameter in self.score.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / size**0.5 * (parameter.ndim > 1))
        self.score.to(self.model.device)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load the model that `save` wrote to `folder`, with exactly the same weights, on the CPU."""
        body = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32)
        model = cls(body, transformers.AutoTokenizer.from_pretrained(folder), seed=0)

        def find(name: str) -> str | None:
            return str(folder / name) if (folder / name).is_file() else None

        head: Any = read_head(find, body.config.get_text_config().hidden_size)
        model.score = head
        return model

    @property
    def device(self) -> torch.device:
        """Return the device of the weights."""
        found: torch.device = self.model.device
        return found

    def tokens(self, solution: LabelledSolution, system: str | None = None) -> StepTokens:
        """Return a solution in tokens, with the mark after each step.

        Args:
            solution: the steps and labels.
            system: the system message for a task that has none. None takes the default of Qwen2.5-Math-PRM, and an empty text
                gives no system message.

        Raises:
            UsageError: the tokenizer merges a mark with the text beside it, or its chat template omits the assistant's turn.
        """
        convention = CONVENTION if system is None else replace(CONVENTION, system=system or None)
        try:
            row = encode(self.tokenizer, solution.prompt.messages, solution.steps, convention)
        except ValueError as error:
            raise UsageError(f"model: its tokenizer cannot lay out steps: {error}") from None
        known = [(place, label) for place, label in zip(row.places, solution.labels, strict=True) if label is not None]
        return StepTokens(row.token_ids, tuple(place for place, _ in known), tuple(label for _, label in known))

    def logits(self, rows: Sequence[StepTokens]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (logits_N2, label_N) of the labelled steps, row by row."""
        length = max(len(row.token_ids) for row in rows)
        ids_BT = torch.zeros(len(rows), length, dtype=torch.long)
        mask_BT = torch.zeros_like(ids_BT)
        for number, row in enumerate(rows):
            ids_BT[number, : len(row.token_ids)] = torch.tensor(row.token_ids)
            mask_BT[number, : len(row.token_ids)] = 1
        places = [(number, place) for number, row in enumerate(rows) for place in row.places]
        labels = [label for row in rows for label in row.labels]
        hidden_BTH = self.model(
            input_ids=ids_BT.to(self.device), attention_mask=mask_BT.to(self.device), use_cache=False
        ).last_hidden_state
        row_N, place_N = torch.tensor(places, dtype=torch.long).reshape(-1, 2).T.to(self.device)
        return self.score(hidden_BTH[row_N, place_N]).float(), torch.tensor(labels, device=self.device)

    def save(self, folder: Path) -> None:
        """Write weights, configuration and tokenizer to `folder`.

        `ProcessEnvironment(kind="qwen", model=folder)` loads them.
        """
        folder.mkdir(parents=True, exist_ok=True)
        weights = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        weights.update({f"{PREFIX}{name}": tensor for name, tensor in self.score.state_dict().items()})
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, folder / SINGLE, {"format": "pt"}
        )
        self.model.config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def _make_room(body: Any, tokens: int) -> None:
    """Enlarge the embeddings of the decoder `body` to `tokens` tokens; new ones begin as the mean of the old."""
    before = body.get_input_embeddings().weight.shape[0]
    if tokens <= before:
        return
    body.resize_token_embeddings(tokens, mean_resizing=False)
    with torch.no_grad():
        weight = body.get_input_embeddings().weight
        weight[before:] = weight[:before].mean(0)
