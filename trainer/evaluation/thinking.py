"""Thinking budgets by budget forcing (s1, arXiv 2501.19393; Qwen3, 2505.09388).

A completion begins with thinking, which ends with a closing text; then comes the answer. If the thinking uses up its budget,
the closing text is inserted and the answer is sampled after it. If the thinking ends early, "Wait" may replace the closing
text, so that the model thinks on. Each continuation is an ordinary call of the engine with a longer prompt, so every engine
works. Inserted tokens are masked as not sampled, and are not counted as sampled tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from verigym.envs.contract.errors import UsageError
from verigym.trainer.engines.base import Engine, Generated, OnFinished, Thought
from verigym.trainer.models.codec import Codec

LAST_TOKENS = 16
"""Tokens at the end of a prompt in which the end of the thinking is looked for."""


@dataclass(frozen=True)
class ThinkingRules:
    """Rules for the thinking before the answer: bounds on its length, and the texts that are inserted to enforce the bounds."""

    budget: int
    """Most sampled tokens of thought; from 0."""
    close: str = "</think>"
    """The text that ends a thought."""
    forced: str = "\n</think>\n\n"
    """Inserted when the budget is used up."""
    waits: int = 0
    """How often thinking that ends early is continued."""
    minimum: int | None = None
    """Thinking of fewer sampled tokens than this counts as ended early; None means fewer than `budget`."""
    wait: str = "Wait"
    """Inserted when thinking is continued."""


@dataclass
class _Row:
    """A completion that is sampled piece by piece."""

    place: tuple[int, int]
    """Prompt and sample."""
    key: tuple[object, ...]
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    written: list[bool] = field(default_factory=list)
    waits: int = 0
    forced: bool = False
    thought: int = 0
    """Tokens before the close, once the thought is over."""
    answer_from: int | None = None
    """Where the answer begins; None while the model thinks."""
    end: Literal["stop", "length"] | None = None

    @property
    def sampled(self) -> int:
        return sum(self.written)

    def take(self, piece: Generated, most: int) -> None:
        self.tokens += piece.token_ids[:most]
        self.logprobs += piece.logprobs[:most]
        self.written += [True] * len(piece.token_ids[:most])

    def put_in(self, ids: Sequence[int]) -> None:
        self.tokens += ids
        self.logprobs += [0.0] * len(ids)
        self.written += [False] * len(ids)

    def cut(self, length: int) -> None:
        del self.tokens[length:], self.logprobs[length:], self.written[length:]

    def generated(self) -> Generated:
        assert self.end is not None
        thought = Thought(sum(self.written[: self.thought]), self.forced, self.waits)
        return Generated(tuple(self.tokens), tuple(self.logprobs), self.end, tuple(self.written), thought)


class ThinkingEngine:
    """Engine that wraps another one and limits the thinking of each completion to a budget of tokens.

    `max_new_tokens` then limits the answer alone.
    """

    def __init__(self, engine: Engine, codec: Codec, rules: ThinkingRules, positions: int | None = None) -> None:
        """Make an engine that samples through `engine`.

        Args:
            engine: the wrapped engine, which samples the pieces of each completion.
            codec: the model's tokenizer.
            rules: bounds on the thinking, and the inserted texts.
            positions: most tokens of prompt and completion together that the model can process; None for no limit.
        """
        self.engine, self.codec, self.rules, self.positions = engine, codec, rules, positions
        self.forced_ids, self.wait_ids = codec.encode_text(rules.forced), codec.encode_text(rules.wait)
        self.minimum = rules.budget if rules.minimum is None else rules.minimum

    def sync(self) -> None:
        """See `Engine.sync`."""
        self.engine.sync()

    def rest(self) -> None:
        """See `Engine.rest`."""
        self.engine.rest()

    def close(self) -> None:
        """Do nothing. The wrapped engine stays open, because it is also used with other thinking budgets."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        """Sample completions within the thinking budget; see `Engine.generate`.

        A completion is sampled in pieces. The first piece is sampled with the row's own randomness key, so a row's thinking
        begins in the same way under every budget.

        Raises:
            UsageError: the longest prompt leaves no room for thinking and answer, or a prompt has ended the thinking already.
        """
        if any(self.codec.decode(prompt[-LAST_TOKENS:]).rstrip().endswith(self.rules.close) for prompt in prompts):
            raise UsageError(
                f"thinking_budgets: the chat template ends prompts with {self.rules.close!r}, so no thinking is left to bound; "
                "leave it out, or let the model think (chat_template_kwargs)"
            )
        longest = max(map(len, prompts), default=0)
        most = longest + most_tokens(self.rules, self.codec, max_new_tokens)
        if self.positions is not None and most > self.positions:
            raise UsageError(
                f"thinking_budgets: a prompt of {longest} tokens with {self.rules.budget} of thought, what is put in and "
                f"{max_new_tokens} of the answer can take {most}, and the model has {self.positions} positions; lower the "
                "budget or max_new_tokens"
            )
        found: list[list[Any]] = [[None] * len(keys) for keys in row_keys]

        def report(row: _Row) -> None:
            if row.end is not None:
                p, g = row.place
                found[p][g] = row.generated()
                on_finished(p, g, found[p][g])

        def thought(row: _Row, piece: Generated, left: int) -> None:
            row.take(piece, left)
            self._after_thought(row, max_new_tokens)
            report(row)

        def answer(row: _Row, piece: Generated, left: int) -> None:
            row.take(piece, left)
            row.end = "stop" if row.tokens[-1] in self.codec.eos_ids else "length"
            report(row)

        rows = [_Row((p, g), key) for p, keys in enumerate(row_keys) for g, key in enumerate(keys)]
        if self.rules.budget == 0:
            for row in rows:
                self._force(row)
        while live := [row for row in rows if row.answer_from is None and row.end is None]:
            keys = [(*row.key, "wait", row.waits) if row.waits else row.key for row in live]
            self._sample(prompts, live, keys, [self.rules.budget - row.sampled for row in live], temperature, thought)
        live = [row for row in rows if row.end is None]
        lefts = [max_new_tokens - (len(row.tokens) - (row.answer_from or 0)) for row in live]
        self._sample(prompts, live, [(*row.key, "answer") for row in live], lefts, temperature, answer)
        return found

    def _sample(
        self,
        prompts: Sequence[Sequence[int]],
        rows: Sequence[_Row],
        keys: Sequence[tuple[object, ...]],
        lefts: Sequence[int],
        temperature: float,
        take: Callable[[_Row, Generated, int], None],
    ) -> None:
        """Sample another piece of each row.

        All rows get the limit of the row with the most tokens left in `lefts`; `take` cuts the pieces of the others.
        """
        if not rows:
            return
        self.engine.generate(
            [(*prompts[row.place[0]], *row.tokens) for row in rows],
            [[key] for key in keys],
            max_new_tokens=max(lefts),
            temperature=temperature,
            on_finished=lambda number, _, piece: take(rows[number], piece, lefts[number]),
        )

    def _after_thought(self, row: _Row, most: int) -> None:
        """Decide how a row continues after a piece of thinking: think on, answer, or end.

        Args:
            row: the row, which already contains the piece.
            most: most tokens of an answer.
        """
        eos = row.tokens[-1] in self.codec.eos_ids
        closed = self._closed(row.tokens)
        if closed is None and not eos:
            if row.sampled == self.rules.budget:
                self._force(row)
            else:  # an engine that stopped for want of room
                row.thought, row.end = len(row.tokens), "length"
            return
        start, end = closed or (len(row.tokens) - 1, len(row.tokens))
        if sum(row.written[:start]) < self.minimum and row.waits < self.rules.waits:
            row.cut(start)
            row.put_in(self.wait_ids)
            row.waits += 1
            return
        row.thought = start
        if closed is None:
            row.end = "stop"
            return
        row.answer_from = end
        if len(row.tokens) - end > most or (len(row.tokens) - end == most and not eos):
            row.cut(end + most)
            row.end = "length"
        elif eos:
            row.end = "stop"

    def _force(self, row: _Row) -> None:
        row.thought, row.forced = len(row.tokens), True
        row.put_in(self.forced_ids)
        row.answer_from = len(row.tokens)

    def _closed(self, tokens: Sequence[int]) -> tuple[int, int] | None:
        """Return the token indices at which the first closing text of the thinking begins and ends; None if there is none.

        A token that contains the first characters of the closing text belongs to it.
        """
        place = self.codec.decode(tokens).find(self.rules.close)
        if place < 0:
            return None
        end = bisect_left(range(len(tokens)), True, key=lambda n: self.rules.close in self.codec.decode(tokens[:n]))
        start = end
        while len(self.codec.decode(tokens[:start])) > place:
            start -= 1
        return start, end


def most_tokens(rules: ThinkingRules, codec: Codec, max_new_tokens: int) -> int:
    """Return the largest number of tokens that a completion can have, including the tokens that `rules` insert."""
    put_in = len(codec.encode_text(rules.forced)) + rules.waits * len(codec.encode_text(rules.wait))
    return rules.budget + put_in + max_new_tokens
