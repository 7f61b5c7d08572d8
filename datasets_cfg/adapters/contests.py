"""APPS, CodeContests and LiveCodeBench: programs that read and print, or functions called with JSON values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from verigym.datasets_cfg.adapters.base import (
    AdaptedRow,
    Adapter,
    RawRow,
    Test,
    pairs,
    parse_json,
    parse_object,
    some,
    stdio,
    text_at,
    texts,
    without_empty,
)
from verigym.datasets_cfg.adapters.packed import unpack
from verigym.datasets_cfg.fields import FieldProblem, describe, find
from verigym.envs.contract.schema import sha256_hex

STDIO_FORM = "Read from standard input and write to standard output."
CALL_FORM = "Write the function `{name}`; it is called with the arguments that the examples show."
STARTER_FORM = "Start from this code and keep its names:\n\n{starter}"

INTERPRETED = ("python", "javascript", "bash")
SLOWER = 3.0
"""Factor on a contest's time limit for interpreted languages, because contests set their limits for compiled programs."""
LEAST_CPU_S, WALL_PER_CPU = 2.0, 2.0
LEAST_MEMORY_MB = 256

FLOAT_TOLERANCE = 1e-5
"""Tolerance for real numbers, as in CodeContests' own judge and LeetCode. Not used if only integers are expected."""
_REAL = re.compile(r"(?<![\w.])[0-9]+\.[0-9]+(?![\w.])")


def policy(tests: Sequence[Test]) -> dict[str, float]:
    """Return the options for comparing a program's results with those that `tests` expect.

    If an expected result contains a real number such as 2.5, this is the tolerance for real numbers; else no option is needed
    and the result is empty.
    """
    waiting: list[Any] = [test["stdout"] if test["type"] == "stdio" else test["expected"] for test in tests]
    while waiting:
        value = waiting.pop()
        if isinstance(value, float) or (isinstance(value, str) and _REAL.search(value)):
            return {"float_tolerance": FLOAT_TOLERANCE}
        waiting += value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return {}


def _calls(name: str, cases: list[tuple[Any, Any]], column: str) -> list[Test]:
    for args, _ in cases:
        if not isinstance(args, list):
            raise FieldProblem(column, f"has arguments that {describe(args)}; expected a list of them")
    return [{"type": "call", "function": name, "args": args, "expected": expected} for args, expected in cases]


def _form(name: str | None, starter: str) -> dict[str, str]:
    if starter.strip():
        return {"form": STARTER_FORM.format(starter=starter.rstrip())}
    return {"form": CALL_FORM.format(name=name) if name else STDIO_FORM}


def apps(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row in the layout of APPS.

    `input_output` holds inputs, outputs and, for function tasks, fn_name; `solutions` is a JSON list.
    """
    data = parse_object(row["input_output"], "input_output")
    cases = pairs(data.get("inputs"), data.get("outputs"), "input_output")
    name, starter = data.get("fn_name"), row.get("starter_code") or ""
    if name is None:
        tests = [stdio(given, wanted, "input_output") for given, wanted in cases]
    else:
        # Tasks from Codewars wrap each result in a list of one, tasks from LeetCode do not.
        wrapped = "class Solution" not in starter and all(isinstance(out, list) and len(out) == 1 for _, out in cases)
        cases = [(args, out[0]) for args, out in cases] if wrapped else cases
        tests = _calls(text_at(data, "fn_name").strip(), cases, "input_output")
    solutions = texts(parse_json(row["solutions"], "solutions"), "solutions") if row["solutions"] else []
    reference = {
        "language": language,
        "tests": some(tests, "input_output"),
        "policy": policy(tests),
        "solution": solutions[0] if solutions and language == "python" else None,
    }
    return AdaptedRow(without_empty(reference), str(row["problem_id"]), _form(name, starter))


def taco(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of TACO: the layout of APPS without `problem_id`, so its id is a hash of its question."""
    return apps({**row, "problem_id": sha256_hex(row["question"])[:12]}, language)


_SOLUTION_LANGUAGES: dict[str, tuple[object, ...]] = {"python": (3, "PYTHON3"), "cpp": (2, "CPP")}


def code_contests(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of CodeContests.

    The row has three columns of tests, each an object with a list of inputs and a list of outputs, and the contest's limits.
    """
    for column in ("input_file", "output_file"):
        if row.get(column):
            raise FieldProblem(column, f"is {row[column]!r}; problems that use files instead of stdin and stdout are not run")
    tests: list[Test] = []
    for column in ("public_tests", "private_tests", "generated_tests"):
        part = row[column]
        cases = pairs(part.get("input"), part.get("output"), column, ("input", "output"))
        tests += [stdio(given, wanted, column) for given, wanted in cases]
    known = row["solutions"]
    of_language = _SOLUTION_LANGUAGES.get(language, ())
    solutions = [
        source
        for kind, source in pairs(known.get("language"), known.get("solution"), "solutions", ("language", "solution"))
        if kind in of_language
    ]
    reference = {
        "language": language,
        "tests": some(tests, "public_tests"),
        "policy": policy(tests),
        "limits": _limits(row, language),
        "solution": solutions[0] if solutions else None,
    }
    return AdaptedRow(without_empty(reference), row["name"], {"form": STDIO_FORM})


def _limits(row: RawRow, language: str) -> dict[str, float]:
    limits: dict[str, float] = {}
    seconds, nanos = (find(row, f"time_limit.{part}") for part in ("seconds", "nanos"))
    if isinstance(seconds, int | float):
        given = seconds + (nanos if isinstance(nanos, int | float) else 0) / 1e9
        cpu = max(LEAST_CPU_S, given * (SLOWER if language in INTERPRETED else 1.0))
        limits = {"cpu_s": cpu, "wall_s": cpu * WALL_PER_CPU}
    memory = row.get("memory_limit_bytes")
    if isinstance(memory, int) and memory > 0:
        limits["memory_mb"] = max(LEAST_MEMORY_MB, math.ceil(memory / (1 << 20)))
    return limits


def livecodebench(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of LiveCodeBench.

    Public tests are JSON; hidden tests are either JSON or JSON that was compressed. For function tasks, `metadata` holds the
    function's name.
    """
    name = find(parse_object(row["metadata"], "metadata"), "func_name") if row["metadata"] else None
    name = name if isinstance(name, str) else None
    tests: list[Test] = []
    for column in ("public_test_cases", "private_test_cases"):
        for case in _cases(row[column], column):
            tests.append(_case(case, name, column))
    reference = {"language": language, "tests": some(tests, "public_test_cases"), "policy": policy(tests)}
    return AdaptedRow(reference, row["question_id"], _form(name, row["starter_code"]))


def _cases(text: str, column: str) -> list[RawRow]:
    if not text.lstrip().startswith("["):
        packed = unpack(text, column)
        if not isinstance(packed, str):
            raise FieldProblem(column, "is a packed object; expected a packed text")
        text = packed
    cases = parse_json(text, column)
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise FieldProblem(column, "is not a JSON list of objects")
    return cases


def _case(case: RawRow, name: str | None, column: str) -> Test:
    kind = case.get("testtype")
    if kind == "stdin":
        return stdio(case.get("input"), case.get("output"), column)
    if kind != "functional":
        raise FieldProblem(f"{column}.testtype", f"is {kind!r}; expected 'stdin' or 'functional'")
    if name is None:
        raise FieldProblem("metadata", "names no func_name, which functional tests need")
    return call_by_lines(name, text_at(case, "input"), text_at(case, "output"), column)


def call_by_lines(name: str, given: str, wanted: str, column: str) -> Test:
    """Return a test that calls function `name` with the arguments `given`, one JSON value per line, and expects `wanted`."""
    args = [parse_json(line, column) for line in given.split("\n")]
    return {"type": "call", "function": name, "args": args, "expected": parse_json(wanted, column)}


APPS = Adapter(
    apps,
    {"problem_id": "integer", "question": "string", "solutions": "string", "input_output": "string"},
    gold="solutions",
    prompt_texts=("form",),
)
TACO = Adapter(
    taco,
    {"question": "string", "solutions": "string", "input_output": "string"},
    gold="solutions",
    prompt_texts=("form",),
)
CODE_CONTESTS = Adapter(
    code_contests,
    {
        "name": "string",
        "description": "string",
        "public_tests": "object",
        "private_tests": "object",
        "generated_tests": "object",
        "solutions": "object",
    },
    gold="solutions",
    prompt_texts=("form",),
)
LIVECODEBENCH = Adapter(
    livecodebench,
    {
        "question_id": "string",
        "question_content": "string",
        "starter_code": "string",
        "public_test_cases": "string",
        "private_test_cases": "string",
        "metadata": "string",
    },
    gold="private_test_cases",
    prompt_texts=("form",),
)
