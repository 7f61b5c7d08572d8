"""Cache of verdicts, keyed by all that they depend on. GRPO groups repeat proofs, and checking one takes seconds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from verigym.envs.contract.schema import Score, Status, canonical_json, sha256_hex
from verigym.envs.grading.cache import ScoreCache
from verigym.envs.lean.task import LeanReference, challenge_file, solution_file

_KEPT = 20_000


def verdict_keys(
    toolchain: str, judge: str, policy: Sequence[str], reference: LeanReference, submission: str
) -> tuple[str, str]:
    """Return two cache keys of a verdict: the first for ACCEPT and REJECT, the second for LIMIT.

    The second key depends on the task's limits too, because under other limits the verdict may not be LIMIT.

    Args:
        toolchain: key of the toolchain with its project.
        judge: hash of the judge's text.
        policy: other settings that decide the verdict, such as the back end.
        reference: the task.
        submission: the proof, or the whole file.
    """
    parts = [
        toolchain,
        judge,
        list(policy),
        reference.name,
        sorted(reference.allowed_axioms),
        challenge_file(reference),
        solution_file(reference, submission),
    ]
    verdict = sha256_hex(canonical_json(parts))
    return verdict, sha256_hex(canonical_json([verdict, reference.limits.model_dump(mode="json")]))


class VerdictCache:
    """Cache of verdicts on proofs, which saves running Lean again. Thread-safe.

    It is in memory and, if `path` is given, also in a file that processes share. Only verdicts that have a score are stored.

    Raises:
        UsageError: the file cannot be used.
    """

    def __init__(self, path: str = "") -> None:
        self._file = ScoreCache(Path(path).expanduser()) if path else None
        self._memory: OrderedDict[str, Score] = OrderedDict()
        self._lock = Lock()

    def get(self, keys: tuple[str, str]) -> Score | None:
        """Return the score; a LIMIT only for the same limits."""
        for key in keys:
            with self._lock:
                score = self._memory.get(key)
            score = score or (self._file.get(key) if self._file else None)
            if score is not None:
                return score
        return None

    def put(self, keys: tuple[str, str], score: Score) -> None:
        """Keep a score."""
        if not score.scored:
            return
        key = keys[1] if score.status is Status.LIMIT else keys[0]
        with self._lock:
            self._memory[key] = score
            while len(self._memory) > _KEPT:
                self._memory.popitem(last=False)
        if self._file is not None:
            self._file.put(key, score)
