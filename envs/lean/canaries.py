"""False statements for training: a verifier that accepts a proof of one is broken."""

from __future__ import annotations

from collections.abc import Callable

from verigym.envs.contract.schema import sha256_hex

_TEXT = "Prove in Lean 4. Give the proof that follows `:=`.\n```lean4\n{statement} := by\n```"
# Each takes numbers a >= 1, b >= 2. False in core Lean, where subtraction of natural numbers stops at 0.
_FALSE: tuple[Callable[[int, int], str], ...] = (
    lambda a, b: f"theorem target : {a} + {b} = {a + b + 1}",
    lambda a, b: f"theorem target : {a} * {b} = {a * b + b - 1}",
    lambda a, b: f"theorem target (n : Nat) : n + {a} < n",
    lambda a, b: f"theorem target (n m : Nat) : n - m + m = n + {a} - {a}",
    lambda a, b: f"theorem target (n : Nat) (h : {a} < n) : n < {a + b}",
    lambda a, b: f"theorem target : ∃ n : Nat, n + {a} < {a}",
    lambda a, b: f"theorem target (p : Nat → Prop) (h : p {a}) : p {a + b}",
    lambda a, b: f"theorem target (n : Nat) : n % {b} < {b - 1}",
)


def canary(seed: int, index: int) -> tuple[str, str]:
    """Return (prompt text, false statement) of task number `index`; the same arguments give the same task."""
    digits = sha256_hex(f"lean canary/{seed}/{index}")
    make = _FALSE[int(digits[:8], 16) % len(_FALSE)]
    statement = make(1 + int(digits[8:16], 16) % 99, 2 + int(digits[16:24], 16) % 98)
    return _TEXT.format(statement=statement), statement
