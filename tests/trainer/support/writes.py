"""An engine whose policy writes given texts."""

from __future__ import annotations

from collections.abc import Sequence

from verigym.trainer.engines.base import Generated, OnFinished
from verigym.trainer.models.codec import Codec


class Writes:
    """An engine: sample number n of each prompt is text number n. A text that ends with `...` is cut off."""

    positions = None

    def __init__(self, codec: Codec, texts: Sequence[str]) -> None:
        """Write `texts`."""
        self.codec, self.texts = codec, texts
        self.prompts: list[tuple[int, ...]] = []

    def sync(self) -> None:
        """Do nothing."""

    def rest(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        """Return the texts as tokens, with an end token unless they are cut off."""
        self.prompts += map(tuple, prompts)
        done: list[list[Generated]] = []
        for place, keys in enumerate(row_keys):
            done.append([])
            for sample in range(len(keys)):
                text = self.texts[sample]
                cut = text.endswith("...")
                ids = (*self.codec.encode_text(text), *(() if cut else (self.codec.end_id,)))
                done[-1].append(Generated(ids, (-0.5,) * len(ids), "length" if cut else "stop"))
                on_finished(place, sample, done[-1][-1])
        return done
