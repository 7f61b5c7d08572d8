"""HumanEval, MBPP and BigCodeBench: tasks for a function, tested by code that calls it."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence

from verigym.datasets_cfg.adapters.base import AdaptedRow, Adapter, RawRow, some, texts, without_empty
from verigym.datasets_cfg.fields import FieldProblem


def _python_only(language: str, shape: str) -> None:
    if language != "python":
        raise FieldProblem("language", f"is {language!r}; the tests of {shape} are Python code")


def humaneval(row: RawRow, language: str) -> AdaptedRow:
    """`check(candidate)` in `test`; the prompt's own helpers belong to the test side."""
    _python_only(language, "humaneval")
    test = {"type": "assert", "code": row["test"], "entry_point": row["entry_point"]}
    reference = {
        "language": language,
        "setup": row["prompt"],
        "tests": [test],
        "prefix": row["prompt"],
        "solution": row["prompt"] + row["canonical_solution"],
    }
    return AdaptedRow(reference, row["task_id"])


def asserts(
    row: RawRow, tests: Sequence[str], solution: str, language: str, *, imports: str = "", before: str = ""
) -> AdaptedRow:
    """MBPP: one assert a test. The prompt shows them, for they name the function.

    Args:
        row: whose id is under task_id or id.
        tests: the asserts.
        solution: the reference program.
        language: must be Python.
        imports: what the tests import.
        before: code that prepares the tests with the program's own names, so that it is part of each.
    """
    _python_only(language, "mbpp")
    entry = _hides_builtin(solution, tests)
    codes = [f"{before}\n{code}" if before else code for code in tests]
    reference = {
        "language": language,
        "setup": imports,
        "tests": some([{"type": "assert", "code": code, **entry} for code in codes], "test_list"),
        "solution": solution,
    }
    shown = "\n".join(filter(None, [before.strip(), *tests]))
    task_id = row["task_id"] if "task_id" in row else row["id"]
    return AdaptedRow(without_empty(reference), str(task_id), {"tests": shown.replace("\r\n", "\n")})


def _hides_builtin(solution: str, tests: Sequence[str]) -> dict[str, str]:
    """Return the entry point where it is called `sum` or the like: a test would otherwise mean the built-in one."""
    called = {name for test in tests for name in re.findall(r"\b(\w+)\s*\(", test)}
    hiding = sorted(called & set(re.findall(r"^def\s+(\w+)", solution, re.MULTILINE)) & vars(builtins).keys())
    return {"entry_point": hiding[0]} if hiding else {}


def mbpp(row: RawRow, language: str) -> AdaptedRow:
    """The full set. `challenge_test_list` is left out: the reference programs do not all pass it."""
    return asserts(row, texts(row["test_list"], "test_list"), row["code"], language, before=row["test_setup_code"])


def mbpp_sanitized(row: RawRow, language: str) -> AdaptedRow:
    """The hand-verified subset: imports in place of setup code, and the text is called `prompt`."""
    imports = "\n".join(texts(row["test_imports"], "test_imports"))
    return asserts(row, texts(row["test_list"], "test_list"), row["code"], language, imports=imports)


def mbpp_plus(row: RawRow, language: str) -> AdaptedRow:
    """MBPP with EvalPlus's tests: one script in `test`. The prompt shows the three asserts that MBPP has."""
    shown = asserts(row, texts(row["test_list"], "test_list"), row["code"], language)
    test = {"type": "assert", "code": row["test"]}
    return AdaptedRow({**shown.reference, "tests": [test]}, shown.task_id, shown.prompt_texts)


def bigcodebench(row: RawRow, language: str) -> AdaptedRow:
    """`unittest` code that calls `entry_point`; the solution continues `code_prompt`."""
    _python_only(language, "bigcodebench")
    reference = {
        "language": language,
        "tests": [{"type": "unittest", "code": row["test"]}],
        "prefix": row["code_prompt"],
        "solution": row["code_prompt"] + "\n" + row["canonical_solution"],
    }
    return AdaptedRow(reference, row["task_id"])


HUMANEVAL = Adapter(
    humaneval,
    {"task_id": "string", "prompt": "string", "entry_point": "string", "canonical_solution": "string", "test": "string"},
    gold="prompt + canonical_solution",
)
MBPP = Adapter(
    mbpp,
    {"task_id": "integer", "text": "string", "code": "string", "test_setup_code": "string", "test_list": "list"},
    gold="code",
    prompt_texts=("tests",),
)
MBPP_SANITIZED = Adapter(
    mbpp_sanitized,
    {"task_id": "integer", "prompt": "string", "code": "string", "test_imports": "list", "test_list": "list"},
    gold="code",
    prompt_texts=("tests",),
)
MBPP_PLUS = Adapter(
    mbpp_plus,
    {"task_id": "integer", "prompt": "string", "code": "string", "test_list": "list", "test": "string"},
    gold="code",
    prompt_texts=("tests",),
)
BIGCODEBENCH = Adapter(
    bigcodebench,
    {
        "task_id": "string",
        "instruct_prompt": "string",
        "code_prompt": "string",
        "canonical_solution": "string",
        "test": "string",
        "entry_point": "string",
    },
    gold="code_prompt + canonical_solution",
)
