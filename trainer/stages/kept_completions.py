"""Keeps each completion as soon as it is sampled, so that a stop in the middle of a batch of prompts loses none."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from verigym.envs.contract.schema import canonical_json
from verigym.trainer.engines.base import Engine, Generated, OnFinished, Thought

logger = logging.getLogger("verigym.trainer")


class KeptCompletions(AbstractContextManager["KeptCompletions"]):
    """A file of completions by their randomness keys. Episodes are not kept, because their turns need their session."""

    def __init__(self, path: Path, identity: str) -> None:
        """Open the file, or make it if it does not exist. A line that a kill cut short is dropped.

        Args:
            path: the file.
            identity: of the settings with which the completions are sampled; a file with another one begins anew.
        """
        self.path, self._identity = path, identity
        lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")] if path.exists() else []
        if lines and json.loads(lines[0]) != {"identity": identity}:
            logger.warning("%s: %d completions were sampled with other settings and are dropped", path.name, len(lines) - 1)
            lines = []
        self.found: dict[str, Generated] = {}
        for line in lines[1:]:
            row = json.loads(line)
            name = row.pop("key")
            self.found[name] = _load(row)
        self._file = path.open("wb")
        self._file.write(b"".join(lines) or self._head())
        self._file.flush()

    def _head(self) -> bytes:
        return (json.dumps({"identity": self._identity}) + "\n").encode()

    def add(self, key: Sequence[object], generated: Generated) -> None:
        """Append a completion."""
        name = canonical_json(list(key))
        self.found[name] = generated
        self._file.write((json.dumps({"key": name, **asdict(generated)}) + "\n").encode())
        self._file.flush()

    def get(self, key: Sequence[object]) -> Generated | None:
        """Return the completion with this key, or None."""
        return self.found.get(canonical_json(list(key)))

    def clear(self) -> None:
        """Drop all completions: they are in another file now."""
        self.found.clear()
        self._file.seek(0)
        self._file.truncate()
        self._file.write(self._head())
        self._file.flush()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()
        if not self.found:
            self.path.unlink()


def _load(row: Mapping[str, Any]) -> Generated:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    fields["turns"] = tuple(tuple(turn) for turn in row["turns"])
    fields["thought"] = Thought(**row["thought"]) if row["thought"] else None
    return Generated(**fields)


class KeepingEngine:
    """An engine that samples with another one, and samples no completion that is kept already."""

    def __init__(self, engine: Engine, kept: KeptCompletions) -> None:
        self._engine, self._kept = engine, kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        """Sample completions; see `Engine.generate`."""
        done: dict[tuple[int, int], Generated] = {}
        wanted: list[list[int]] = []
        for p, keys in enumerate(row_keys):
            wanted.append([])
            for g, key in enumerate(keys):
                if (known := self._kept.get(key)) is None:
                    wanted[p].append(g)
                else:
                    done[p, g] = known
                    on_finished(p, g, known)
        left = [p for p, numbers in enumerate(wanted) if numbers]

        def finished(row: int, number: int, generated: Generated) -> None:
            p = left[row]
            g = wanted[p][number]
            self._kept.add(row_keys[p][g], generated)
            done[p, g] = generated
            on_finished(p, g, generated)

        if left:
            self._engine.generate(
                [prompts[p] for p in left],
                [[row_keys[p][g] for g in wanted[p]] for p in left],
                max_new_tokens=max_new_tokens,
                temperature=temperature,
                on_finished=finished,
            )
        return [[done[p, g] for g in range(len(keys))] for p, keys in enumerate(row_keys)]
