"""Runs process reward models with transformers: loaded once per process, run in batches on a CPU or a GPU.

torch and transformers are imported only when a model is loaded. No code from a hub is run: a checkpoint of Qwen2.5-Math-PRM is
a Qwen2 decoder, which is part of transformers, and a head (`score.*`), which is read from the checkpoint's safetensors.

Legend: B rows, T tokens (padded on the right), H hidden size, N steps of all rows, C classes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Message
from verigym.envs.model_fingerprint import fingerprint, missing_folder
from verigym.envs.openmp import bound_spinning
from verigym.envs.process.conventions import BAD, GOOD, Convention, Encoded, TooLong, encode, tag_id

if TYPE_CHECKING:
    import torch

HINT = "pip install 'verigym[process]'"

Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["fp32", "bf16"]


class Source(NamedTuple):
    """Which model, and how it is run."""

    convention: Convention
    model: str
    revision: str | None
    device: Device
    dtype: Dtype
    positive: int
    """The class that means a right step."""
    max_tokens: int | None
    weights: str = ""
    """The fingerprint that a local folder has to have."""


class StepModel:
    """A loaded process reward model. `probabilities` may be called from any thread."""

    def __init__(self, source: Source) -> None:
        """Load the model.

        Raises:
            EnvironmentFailure: `unavailable`, when a package is missing, or the model or a part of it cannot be loaded.
        """
        bound_spinning()
        try:
            import torch
            import transformers
        except ImportError as error:
            raise EnvironmentFailure("unavailable", f"process reward models need {error.name}; {HINT}") from None
        if source.device == "cuda" and not torch.cuda.is_available():
            raise EnvironmentFailure("unavailable", "device='cuda' was asked for, but torch sees none; take 'cpu' or 'auto'")
        name = "cuda" if source.device != "cpu" and torch.cuda.is_available() else "cpu"
        self.device = torch.device(name)
        self.convention = source.convention
        if missing := missing_folder(source.model):
            raise EnvironmentFailure("unavailable", f"option model: {missing}")
        _same_weights(source)
        how: dict[str, Any] = {"revision": source.revision, "trust_remote_code": False}
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(source.model, **how)
            how["dtype"] = torch.bfloat16 if source.dtype == "bf16" else torch.float32
            self._model, self._read = _READERS[source.convention.kind](source, self.tokenizer, how)
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            line = " ".join(str(error).split())[:300]
            raise EnvironmentFailure(
                "unavailable",
                f"process reward model {source.model!r} cannot be loaded as kind={source.convention.kind!r}: {line}",
            ) from None
        self._model.to(self.device).requires_grad_(False).eval()
        held = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        self.max_tokens = min(limit for limit in (source.max_tokens, held, 2**31) if limit)
        self._lock = threading.Lock()

    def encode(self, messages: Sequence[Message], steps: Sequence[str]) -> Encoded:
        """Return the tokens of a task and its solution; see `conventions.encode`.

        Raises:
            TooLong: there are more tokens than the model reads. Nothing is cut off.
            EnvironmentFailure: `gold_invalid`, because the task alone is too long.
        """
        if len(steps) > self.max_tokens:  # each has a mark; to lay them out would take long
            raise TooLong(f"the solution has {len(steps)} steps; the model reads {self.max_tokens} tokens")
        encoded = encode(self.tokenizer, messages, steps, self.convention)
        count = len(encoded.token_ids)
        if count > self.max_tokens:
            if len(encode(self.tokenizer, messages, ["."], self.convention).token_ids) > self.max_tokens:
                raise EnvironmentFailure("gold_invalid", f"the task alone has more than the model's {self.max_tokens} tokens")
            raise TooLong(f"task and solution have {count} tokens; the model reads {self.max_tokens}")
        return encoded

    def probabilities(self, rows: Sequence[Encoded], *, batch_size: int = 8) -> list[list[float]]:
        """Return, for each row, the probability in [0, 1] that each of its steps is right.

        Rows of similar length share a forward pass; results are in the order of `rows`.

        Args:
            rows: solutions from `encode`.
            batch_size: maximum number of rows in one forward pass.
        """
        import torch

        order = sorted(range(len(rows)), key=lambda row: len(rows[row].token_ids))
        by_row: list[list[float]] = [[] for _ in rows]
        with self._lock, torch.inference_mode():
            for low in range(0, len(order), batch_size):
                batch = order[low : low + batch_size]
                probabilities_N = self._forward([rows[row] for row in batch]).tolist()
                for row in batch:
                    count = len(rows[row].places)
                    by_row[row], probabilities_N = probabilities_N[:count], probabilities_N[count:]
        return by_row

    def _forward(self, rows: Sequence[Encoded]) -> torch.Tensor:
        import torch

        length = max(len(row.token_ids) for row in rows)
        ids_BT = torch.zeros(len(rows), length, dtype=torch.long)
        mask_BT = torch.zeros(len(rows), length, dtype=torch.long)
        for number, row in enumerate(rows):
            ids_BT[number, : len(row.token_ids)] = torch.tensor(row.token_ids)
            mask_BT[number, : len(row.token_ids)] = 1
        row_N = torch.tensor([number for number, row in enumerate(rows) for _ in row.places])
        place_N = torch.tensor([place for row in rows for place in row.places])
        places = (row_N.to(self.device), place_N.to(self.device))
        probabilities_N: torch.Tensor = self._read(ids_BT.to(self.device), mask_BT.to(self.device), places)
        if not bool(torch.isfinite(probabilities_N).all()):
            raise EnvironmentFailure("backend", "the process reward model gave numbers that are not finite")
        return probabilities_N.double().clamp(0, 1).cpu()


Read = Callable[["torch.Tensor", "torch.Tensor", Any], "torch.Tensor"]


def _two_classes(source: Source, tokenizer: Any, how: dict[str, Any]) -> tuple[Any, Read]:
    """Qwen2.5-Math-PRM: a decoder with a head of two classes."""
    import transformers

    from verigym.envs.process.heads import read_head

    _one_token(tokenizer, source.convention)
    body = transformers.AutoModel.from_pretrained(source.model, **how)
    head = read_head(_part_finder(source), body.config.get_text_config().hidden_size).to(body.dtype)
    body.step_head = head  # one module, so that one call moves both

    def read(ids_BT: torch.Tensor, mask_BT: torch.Tensor, places: Any) -> torch.Tensor:
        hidden_BTH = body(input_ids=ids_BT, attention_mask=mask_BT, use_cache=False).last_hidden_state
        logits_NC = head(hidden_BTH[places]).float()
        right_N: torch.Tensor = logits_NC.softmax(-1)[:, source.positive]
        return right_N

    return body, read


def _two_tokens(source: Source, tokenizer: Any, how: dict[str, Any]) -> tuple[Any, Read]:
    """Math-Shepherd: a language model that says `+` or `-`."""
    import transformers

    _one_token(tokenizer, source.convention)
    candidates = [tokenizer.encode(sign, add_special_tokens=False)[-1] for sign in (GOOD, BAD)]
    model = transformers.AutoModelForCausalLM.from_pretrained(source.model, **how)

    def read(ids_BT: torch.Tensor, mask_BT: torch.Tensor, places: Any) -> torch.Tensor:
        hidden_BTH = model.base_model(input_ids=ids_BT, attention_mask=mask_BT, use_cache=False).last_hidden_state
        logits_NV = model.get_output_embeddings()(hidden_BTH[places])  # of the marks alone: the vocabulary is large
        right_N: torch.Tensor = logits_NV[:, candidates].float().softmax(-1)[:, 0]
        return right_N

    return model, read


def _token_classes(source: Source, tokenizer: Any, how: dict[str, Any]) -> tuple[Any, Read]:
    """Any token classification model; with one class, its logit's sigmoid."""
    import transformers

    model, loaded = transformers.AutoModelForTokenClassification.from_pretrained(source.model, output_loading_info=True, **how)
    if loaded["missing_keys"]:
        raise ValueError(f"the checkpoint has no weights for {sorted(loaded['missing_keys'])}; it is no token classifier")
    classes = model.config.num_labels
    if not -classes <= source.positive < classes and classes > 1:
        raise ValueError(f"positive={source.positive}, but the model has {classes} classes")

    def read(ids_BT: torch.Tensor, mask_BT: torch.Tensor, places: Any) -> torch.Tensor:
        logits_NC = model(input_ids=ids_BT, attention_mask=mask_BT).logits[places].float()
        right_N: torch.Tensor = logits_NC[:, 0].sigmoid() if classes == 1 else logits_NC.softmax(-1)[:, source.positive]
        return right_N

    return model, read


_READERS = {"qwen": _two_classes, "shepherd": _two_tokens, "tokens": _token_classes}


def _one_token(tokenizer: Any, convention: Convention) -> None:
    ids = tokenizer.encode(convention.tag, add_special_tokens=False)
    unknown = tokenizer.unk_token_id is not None and tag_id(tokenizer, convention) == tokenizer.unk_token_id
    if unknown or tokenizer.decode(ids[-1:]).strip() != convention.tag:
        raise ValueError(f"its tokenizer has no token {convention.tag!r}")


def _same_weights(source: Source) -> None:
    if source.weights and fingerprint(source.model) != source.weights:
        raise EnvironmentFailure(
            "unavailable",
            f"the files of {source.model!r} have changed since the environment was made, whose verdicts name the old ones; "
            f"make it anew",
        )


def _part_finder(source: Source) -> Callable[[str], str | None]:
    """Return a function from a file's name to its path, on disk or through the hub's cache."""
    from transformers.utils import cached_file

    def find(name: str) -> str | None:
        if Path(source.model).is_dir():
            path = Path(source.model) / name
            return str(path) if path.is_file() else None
        cached = cached_file(source.model, name, revision=source.revision, _raise_exceptions_for_missing_entries=False)
        return str(cached) if cached else None

    return find


_LOADED: dict[Source, StepModel] = {}
_LOADING = threading.Lock()


def load(source: Source) -> StepModel:
    """Return the model from `source`, loaded once per process.

    Raises:
        EnvironmentFailure: `unavailable`; see `StepModel`.
    """
    with _LOADING:
        if source not in _LOADED:
            _LOADED[source] = StepModel(source)
        return _LOADED[source]
