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
    """Return the task in `row`, a row of HumanEval.

    Its `test` defines `check(candidate)`; helper functions in the prompt are made available to the tests.
    """
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
    """Return the task in `row`, a row of MBPP, with one test per assert. The prompt shows the asserts, which name the function.

    Args:
        row: the row, whose id is in `task_id` or `id`.
        tests: the asserts.
        solution: the reference program.
        language: must be Python.
        imports: import statements that the tests need.
        before: setup code of the tests. It is put into each test instead of before the program, whose names it uses.
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
    """Return the task in `row`, a row of the full MBPP.

    `challenge_test_list` is left out, because some reference programs do not pass it.
    """
    return asserts(row, texts(row["test_list"], "test_list"), row["code"], language, before=row["test_setup_code"])


def mbpp_sanitized(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of MBPP's hand-verified subset.

    Unlike the full MBPP, it has its text in the column `prompt`, and imports instead of setup code.
    """
    imports = "\n".join(texts(row["test_imports"], "test_imports"))
    return asserts(row, texts(row["test_list"], "test_list"), row["code"], language, imports=imports)


def mbpp_plus(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of MBPP with EvalPlus's tests, which are one script in `test`.

    The prompt shows the three asserts of MBPP.
    """
    shown = asserts(row, texts(row["test_list"], "test_list"), row["code"], language)
    test = {"type": "assert", "code": row["test"]}
    return AdaptedRow({**shown.reference, "tests": [test]}, shown.task_id, shown.prompt_texts)


def bigcodebench(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of BigCodeBench.

    Its tests are `unittest` code that calls `entry_point`; its solution continues `code_prompt`.
    """
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
