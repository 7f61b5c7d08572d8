"""Programming data sets in SandboxFusion's row layout (id, content, labels, test, canonical_solution)."""

from __future__ import annotations

from verigym.datasets_cfg.adapters.base import (
    AdaptedRow,
    Adapter,
    RawRow,
    pairs,
    parse_json,
    parse_object,
    some,
    stdio,
    text_at,
    texts,
)
from verigym.datasets_cfg.adapters.contests import call_by_lines, policy
from verigym.datasets_cfg.adapters.functions import asserts
from verigym.datasets_cfg.adapters.packed import unpack
from verigym.datasets_cfg.fields import FieldProblem, find


def stdio_tests(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, which has stdin/stdout tests.

    `test` is a JSON list of {input: {stdin}, output: {stdout}}; there are no solutions.
    """
    cases = parse_json(row["test"], "test")
    if not isinstance(cases, list):
        raise FieldProblem("test", "is not a JSON list")
    tests = [stdio(find(case, "input.stdin"), find(case, "output.stdout"), "test") for case in cases]
    name = find(parse_object(row["labels"], "labels"), "name")
    reference = {"language": language, "tests": some(tests, "test"), "policy": policy(tests)}
    return AdaptedRow(reference, name if isinstance(name, str) else str(row["id"]))


def livecodebench(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of LiveCodeBench.

    `test` is a compressed object whose field `input_output` is JSON as in APPS, with one function argument per line. The row's
    solution is only a stub and is not used.
    """
    packed = unpack(row["test"], "test")
    data = parse_object(text_at({"test": packed}, "test.input_output"), "test")
    cases = pairs(data.get("inputs"), data.get("outputs"), "test")
    name = data.get("fn_name")
    if name is None:
        tests = [stdio(given, wanted, "test") for given, wanted in cases]
    else:
        for given, wanted in cases:
            if not isinstance(given, str) or not isinstance(wanted, str):
                raise FieldProblem("test", "has an input or output that is not text")
        tests = [call_by_lines(text_at(data, "fn_name"), given, wanted, "test") for given, wanted in cases]
    reference = {"language": language, "tests": some(tests, "test"), "policy": policy(tests)}
    return AdaptedRow(reference, text_at(parse_object(row["labels"], "labels"), "task_id"))


def bigcodebench(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of BigCodeBench; `content` is the code to complete."""
    if language != "python":
        raise FieldProblem("language", f"is {language!r}; the tests of bigcodebench are Python code")
    reference = {
        "language": language,
        "tests": [{"type": "unittest", "code": row["test"]}],
        "prefix": row["content"],
        "solution": row["content"] + "\n" + row["canonical_solution"],
    }
    return AdaptedRow(reference, row["id"])


def mbpp(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of MBPP; `labels` holds the setup code and the challenge tests, which are not used."""
    before = text_at(row, "labels.test_setup_code")
    return asserts(row, texts(row["test_list"], "test_list"), row["canonical_solution"], language, before=before)


STDIO = Adapter(stdio_tests, {"id": "integer", "content": "string", "labels": "string", "test": "string"}, gold="test")
LIVECODEBENCH = Adapter(livecodebench, {"content": "string", "labels": "string", "test": "string"}, gold="test")
BIGCODEBENCH = Adapter(
    bigcodebench,
    {"id": "string", "content": "string", "canonical_solution": "string", "test": "string"},
    gold="content + canonical_solution",
)
MBPP = Adapter(
    mbpp,
    {"id": "integer", "content": "string", "canonical_solution": "string", "labels": "object", "test_list": "list"},
    gold="canonical_solution",
    prompt_texts=("tests",),
)
