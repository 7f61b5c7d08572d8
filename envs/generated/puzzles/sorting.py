"""`sorting`: numbers or words in ascending or descending order."""

from __future__ import annotations

import random

from verigym.envs.contract.generated import Made
from verigym.envs.generated.puzzles.base import TextOptions, TextPuzzle, TextReference, at
from verigym.envs.match.lists import split_items, unbracketed

SIZES = (4, 6, 9, 14, 20)
LARGEST = (99, 99, 999, 9999, 9999)
WORDS = tuple(
    "acorn apple arrow basin beach bench berry bread brick bridge cabin candle canyon carpet castle cedar chalk cherry "
    "clock cloud coral cradle desert donkey dragon eagle engine fabric falcon feather fence ferry flame flute forest "
    "garden ginger glacier grape hammer harbor hazel honey island ivory jacket jungle kettle kitten ladder lantern lemon "
    "marble meadow mirror needle ocean orchid paddle pebble pepper pillow planet quartz rabbit ribbon river saddle salmon "
    "shadow silver spider stable temple thunder timber tunnel turtle valley velvet violet walnut willow window winter".split()
)


class SortingEnvironment(TextPuzzle[TextReference, TextOptions]):
    """Sorting; the higher the level, the longer the list."""

    name = "sorting"
    version = "2"
    reference_type = TextReference
    options_type = TextOptions

    def make(self, rng: random.Random) -> Made:
        """Draw numbers, which may repeat, or words, which do not."""
        size, down = at(self.level, SIZES), rng.random() < 0.5
        if rng.random() < 0.5:
            values = [rng.randint(-9 if self.level > 1 else 0, at(self.level, LARGEST)) for _ in range(size)]
            given, done = [*map(str, values)], [*map(str, sorted(values, reverse=down))]
            order = f"numbers from the {'largest to the smallest' if down else 'smallest to the largest'}"
        else:
            given = rng.sample(WORDS, size)
            done = sorted(given, reverse=down)
            order = f"words in {'reverse alphabetical' if down else 'alphabetical'} order"
        return Made(f"Sort these {order}, separated by commas: {', '.join(given)}.", ", ".join(done))

    def problem(self, reference: TextReference, answer: str) -> str:
        """The same items in the same order; case means nothing."""
        given, right = (split_items(unbracketed(text.casefold())) for text in (answer.replace("\u2212", "-"), reference.answer))
        if given == right:
            return ""
        return "the right items in another order" if sorted(given) == sorted(right) else "other items than asked for"
