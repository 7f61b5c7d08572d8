"""Small rows of our own in each published layout."""

import base64
import json
import pickle
import zlib

import pytest

from verigym.datasets_cfg import load_config
from verigym.datasets_cfg.adapters import ADAPTERS
from verigym.datasets_cfg.fields import FieldProblem
from verigym.envs import load as load_environment
from verigym.envs.code.reference import CodeReference
from verigym.envs.lean.task import LeanReference


def packed(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value, 4))).decode()


LCB_STDIN = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
LCB_CALL = [{"input": '[1, 2]\n"x"', "output": "[3.5]", "testtype": "functional"}]

ROWS = {
    "humaneval": {
        "task_id": "HumanEval/900",
        "prompt": 'def twice(n):\n    """Twice n."""\n',
        "entry_point": "twice",
        "canonical_solution": "    return 2 * n\n",
        "test": "def check(candidate):\n    assert candidate(3) == 6\n",
    },
    "mbpp": {
        "task_id": 900,
        "text": "Double a number.",
        "code": "def twice(n):\r\n    return 2 * n",
        "test_setup_code": "",
        "test_list": ["assert twice(3) == 6", "assert twice(0) == 0"],
        "challenge_test_list": ["assert twice('a') == 6"],
    },
    "mbpp_sanitized": {
        "task_id": 900,
        "prompt": "Double a number.",
        "code": "def twice(n):\n    return 2 * n",
        "test_imports": ["import math", "import re"],
        "test_list": ["assert math.isclose(twice(3), 6)"],
    },
    "bigcodebench": {
        "task_id": "BigCodeBench/900",
        "instruct_prompt": "Double a number.",
        "code_prompt": "import math\ndef task_func(n):",
        "canonical_solution": "    return 2 * n",
        "test": "import unittest\nclass TestCases(unittest.TestCase):\n    def test(self): self.assertEqual(task_func(3), 6)",
        "entry_point": "task_func",
    },
    "apps": {
        "problem_id": 7,
        "question": "Double a number.",
        "solutions": json.dumps(["print(2 * int(input()))", "n = int(input())\nprint(n + n)"]),
        "input_output": json.dumps({"inputs": ["3\n", ["1", ""]], "outputs": ["6\n", ["2"]]}),
        "starter_code": "",
    },
    "code_contests": {
        "name": "900_A. Twice",
        "description": "Double a number.",
        "public_tests": {"input": ["3\n"], "output": ["6\n"]},
        "private_tests": {"input": [], "output": []},
        "generated_tests": {"input": ["1\n", "2\n"], "output": ["2\n", "4\n"]},
        "solutions": {"language": [2, 1, 3, 3], "solution": ["cpp", "python 2", "print(2 * int(input()))", "other"]},
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
        "memory_limit_bytes": 1_000_000_000,
        "input_file": "",
        "output_file": "",
    },
    "livecodebench": {
        "question_id": "abc900_a",
        "question_content": "Double a number.",
        "starter_code": "",
        "public_test_cases": json.dumps(LCB_STDIN),
        "private_test_cases": packed(json.dumps([{"input": "4\n", "output": "8\n", "testtype": "stdin"}])),
        "metadata": "{}",
    },
    "sandboxfusion_stdio": {
        "id": 4,
        "content": "Double a number.",
        "labels": '{"difficulty":"A", "name":"twice", "source":"CODEFORCES"}',
        "test": json.dumps([{"input": {"stdin": "3\n"}, "output": {"stdout": "6\n"}}]),
    },
    "sandboxfusion_livecodebench": {
        "content": "Count.",
        "labels": '{"task_id": "leetcode/900"}',
        "test": packed({"input_output": json.dumps({"inputs": ["[1]\n2"], "outputs": ["3"], "fn_name": "count"})}),
    },
    "sandboxfusion_bigcodebench": {
        "id": "BigCodeBench/900",
        "content": "def task_func(n):\n",
        "canonical_solution": "    return 2 * n",
        "test": "import unittest",
    },
    "sandboxfusion_mbpp": {
        "id": 900,
        "content": "Double a number.",
        "canonical_solution": "def twice(n): return 2 * n",
        "labels": {"challenge_test_list": ["assert twice('a') == 6"], "test_setup_code": ""},
        "test_list": ["assert twice(3) == 6"],
    },
    **{
        shape: dict(load_config(name).sample_row)
        for shape, name in {
            "gpqa": "gpqa",
            "knights_and_knaves": "knights_and_knaves",
            "lettered": "sat_math",
            "mbpp_plus": "mbpp_plus",
            "mmlu_pro": "mmlu_pro",
            "rlvr_ifeval": "rlvr_ifeval",
            "taco": "taco",
        }.items()
    },
    "lean_statement": {
        "name": "twice",
        "header": "import A\n\nopen Nat\n\n",
        "informal_prefix": "/-- Twice two is four.-/\n",
        "formal_statement": "theorem twice (n := 2) : 2 * n = 4 := by\n",
    },
    "lean_proved": {
        "name": "twice",
        "formal_statement": "theorem twice : 2 * 2 = 4 := by\n",
        "formal_proof": "  rfl",
    },
    "lean_file": {"name": "twice", "text": "import A\n\n/-- Twice. -/\ntheorem twice : 2 * 2 = 4 := by sorry"},
}


OTHERS = {
    "gpqa": "match",
    "lettered": "match",
    "mmlu_pro": "match",
    "knights_and_knaves": "logic",
    "rlvr_ifeval": "constraints",
}


def shaped(name, language="python", **changes):
    return ADAPTERS[name].convert({**ROWS[name], **changes}, language)


@pytest.mark.parametrize("name", ADAPTERS)
def test_every_layout_gives_a_reference_that_the_environment_takes(name):
    found = shaped(name)
    if name.startswith("lean"):
        assert LeanReference(**found.reference).name == found.task_id
    elif name in OTHERS:
        environment = load_environment(OTHERS[name])
        fixed = {"kind": "choice"} if OTHERS[name] == "match" else {}
        assert environment.prompt("?", **fixed, **found.reference).key and found.task_id
    else:
        assert CodeReference(**found.reference).tests and found.task_id
    assert set(found.prompt_texts) == set(ADAPTERS[name].prompt_texts)
    assert set(ADAPTERS[name].columns) <= set(ROWS[name])


def test_lean_statements_are_taken_apart():
    found = shaped("lean_statement")
    statement = "theorem twice (n := 2) : 2 * n = 4"
    assert found.reference == {"name": "twice", "statement": statement, "header": "import A\n\nopen Nat"}
    assert found.prompt_texts["informal"] == "Twice two is four."
    assert found.prompt_texts["code"] == f"import A\n\nopen Nat\n\n{statement} := by\n  sorry"
    split = shaped(
        "lean_statement",
        header="import A\n/-- a ",
        formal_statement="theorem is\nhere -/\ndef two := 2\ntheorem t : two = 2 :=",
    )
    assert split.reference["header"] == "import A\n/-- a \ntheorem is\nhere -/\ndef two := 2"
    assert split.task_id == split.reference["name"] == "t"
    spaced = shaped("lean_statement", header="namespace A", informal_prefix=None, informal_statement="Plain.")
    assert (spaced.reference["name"], spaced.prompt_texts["informal"]) == ("A.twice", "Plain.")
    assert shaped("lean_statement", formal_statement="def f : Nat :=").prompt_texts["code"].endswith("def f : Nat :=\n  sorry")


def test_lean_proofs_follow_their_statement():
    assert shaped("lean_proved").reference["solution"] == "by\n  rfl"
    assert shaped("lean_proved", formal_statement="theorem t : 1 = 1 :=", formal_proof="rfl").reference["solution"] == "rfl"
    assert "header" not in shaped("lean_proved").reference


def test_lean_files_keep_what_stands_before():
    found = shaped("lean_file")
    assert found.reference == {"name": "twice", "statement": "theorem twice : 2 * 2 = 4", "header": "import A"}


def test_humaneval():
    reference = shaped("humaneval").reference
    assert reference["tests"] == [{"type": "assert", "code": ROWS["humaneval"]["test"], "entry_point": "twice"}]
    assert reference["setup"] == reference["prefix"] == ROWS["humaneval"]["prompt"]
    assert reference["solution"] == 'def twice(n):\n    """Twice n."""\n    return 2 * n\n'


def test_mbpp_leaves_challenge_tests_out_and_shows_the_others():
    found = shaped("mbpp")
    assert [test["code"] for test in found.reference["tests"]] == ROWS["mbpp"]["test_list"]
    assert found.prompt_texts == {"tests": "assert twice(3) == 6\nassert twice(0) == 0"}
    assert "setup" not in found.reference
    with_setup = shaped("mbpp", test_setup_code="root = Node(1)\r\nroot.left = None")
    assert with_setup.reference["tests"][1]["code"] == "root = Node(1)\r\nroot.left = None\nassert twice(0) == 0"
    assert with_setup.prompt_texts["tests"].startswith("root = Node(1)\nroot.left = None\nassert twice(3)")


def test_mbpp_names_a_function_that_hides_a_builtin():
    found = shaped(
        "mbpp", code="def sum(a, b):\n    return a + b", test_list=["assert sum(1, 2) == 3", "assert max(sum(1, 1), 1) == 2"]
    )
    assert [test["entry_point"] for test in found.reference["tests"]] == ["sum", "sum"]
    assert "entry_point" not in shaped("mbpp").reference["tests"][0]
    helper = shaped("mbpp", code="def max(a):\n    return 1\ndef twice(n):\n    return 2 * n")
    assert "entry_point" not in helper.reference["tests"][0]


def test_sanitized_imports_become_setup():
    assert shaped("mbpp_sanitized").reference["setup"] == "import math\nimport re"


def test_apps_stdio_joins_lines_and_takes_the_first_solution():
    found = shaped("apps")
    assert found.reference["tests"] == [
        {"type": "stdio", "stdin": "3\n", "stdout": "6\n"},
        {"type": "stdio", "stdin": "1\n", "stdout": "2"},
    ]
    assert found.reference["solution"] == "print(2 * int(input()))"
    assert "standard input" in found.prompt_texts["form"]
    assert "solution" not in shaped("apps", solutions="").reference
    assert "solution" not in shaped("apps", language="cpp").reference


@pytest.mark.parametrize(
    ("outputs", "starter", "expected"),
    [
        ([[6], [[1]]], "def f(n):\n\t", [6, [1]]),
        ([6, 0], "def f(n):\n\t", [6, 0]),
        ([[6], [1, 2]], "def f(n):\n\t", [[6], [1, 2]]),
        ([[6], [8]], "class Solution:\n    def f(self, n):\n        ", [[6], [8]]),
    ],
)
def test_apps_calls_unwrap_results_in_lists_of_one(outputs, starter, expected):
    data = {"fn_name": "f", "inputs": [[3], [{"a": [1]}]], "outputs": outputs}
    found = shaped("apps", input_output=json.dumps(data), starter_code=starter)
    assert found.reference["tests"] == [
        {"type": "call", "function": "f", "args": [3], "expected": expected[0]},
        {"type": "call", "function": "f", "args": [{"a": [1]}], "expected": expected[1]},
    ]
    assert starter.rstrip() in found.prompt_texts["form"]


def test_code_contests_takes_all_tests_and_the_contest_limits():
    reference = shaped("code_contests").reference
    assert [test["stdin"] for test in reference["tests"]] == ["3\n", "1\n", "2\n"]
    assert reference["solution"] == "print(2 * int(input()))"
    assert reference["limits"] == {"cpu_s": 4.5, "wall_s": 9.0, "memory_mb": 954}
    in_cpp = shaped("code_contests", language="cpp").reference
    assert in_cpp["solution"] == "cpp" and in_cpp["limits"]["cpu_s"] == 2.0
    bare = shaped("code_contests", time_limit=None, memory_limit_bytes=0, solutions={"language": [1], "solution": ["print 1"]})
    assert "limits" not in bare.reference and "solution" not in bare.reference


def test_livecodebench_reads_plain_and_packed_tests():
    found = shaped("livecodebench")
    assert [test["stdin"] for test in found.reference["tests"]] == ["1\n", "4\n"]
    plain = shaped("livecodebench", private_test_cases=json.dumps(LCB_STDIN))
    assert [test["stdin"] for test in plain.reference["tests"]] == ["1\n", "1\n"]


def test_livecodebench_calls_have_one_argument_a_line():
    starter = "class Solution:\n    def f(self, a: List[int], s: str) -> List[float]:\n        "
    changes = {"public_test_cases": json.dumps(LCB_CALL), "private_test_cases": packed("[]"), "starter_code": starter}
    found = shaped("livecodebench", **changes, metadata='{"func_name": "f"}')
    assert found.reference["tests"] == [{"type": "call", "function": "f", "args": [[1, 2], "x"], "expected": [3.5]}]
    assert "def f(self" in found.prompt_texts["form"]
    with pytest.raises(FieldProblem, match="names no func_name"):
        shaped("livecodebench", **changes)


@pytest.mark.parametrize(
    ("wanted", "tolerance"),
    [("6\n", None), ("1000000007", None), ("0.5\n", 1e-5), ("v1.2.3", None), ("x 3.25 y", 1e-5), ("a.5", None)],
)
def test_only_real_numbers_bring_a_tolerance(wanted, tolerance):
    data = json.dumps({"inputs": ["1"], "outputs": [wanted]})
    assert shaped("apps", input_output=data).reference.get("policy", {}).get("float_tolerance") == tolerance


@pytest.mark.parametrize(
    ("name", "changes", "field", "message"),
    [
        ("mbpp", {"test_list": []}, "test_list", "holds no tests: every program would pass"),
        ("lean_statement", {"formal_statement": "1 = 1"}, "formal_statement", "declares no theorem"),
        (
            "lean_statement",
            {"formal_statement": "theorem t : 1 = 1 := rfl"},
            "formal_statement",
            "more than a statement: ':= rfl'",
        ),
        ("lean_statement", {"header": "/-"}, "formal_statement", "never closes"),
        ("lean_proved", {"formal_statement": "theorem t : 1 = 1"}, "formal_statement", "expected `:=` or `:= by`"),
        ("lean_file", {"text": ""}, "text", "cannot be split"),
        ("mbpp", {"test_list": ["assert 1", 2]}, "test_list.1", "is int; expected text"),
        ("mbpp_sanitized", {"test_imports": None}, "test_imports", "is null; expected a list of text"),
        ("apps", {"input_output": ""}, "input_output", "is not JSON"),
        ("apps", {"input_output": "[" * 100_000}, "input_output", "is not JSON"),
        ("apps", {"input_output": "[]"}, "input_output", "holds JSON that is list; expected an object"),
        ("apps", {"input_output": '{"inputs": [], "outputs": []}'}, "input_output", "holds no tests"),
        ("apps", {"input_output": '{"inputs": ["1"]}'}, "input_output.outputs", "is null; expected a list"),
        ("apps", {"input_output": '{"inputs": ["1"], "outputs": []}'}, "input_output", "has 1 inputs and 0 outputs"),
        (
            "apps",
            {"input_output": '{"inputs": [1], "outputs": ["1"]}'},
            "input_output",
            "has an input that is int; expected text",
        ),
        (
            "apps",
            {"input_output": '{"fn_name": "f", "inputs": [3], "outputs": [6]}'},
            "input_output",
            "has arguments that is int; expected a list of them",
        ),
        ("apps", {"solutions": '{"a": 1}'}, "solutions", "is dict; expected a list of text"),
        ("code_contests", {"input_file": "in.txt"}, "input_file", "problems that use files"),
        ("code_contests", {"public_tests": {"input": ["1"]}}, "public_tests.output", "is null; expected a list"),
        ("code_contests", {"solutions": {"language": [3], "solution": []}}, "solutions", "has 1 inputs and 0 outputs"),
        ("livecodebench", {"private_test_cases": "?"}, "private_test_cases", "is not base64 over zlib"),
        ("livecodebench", {"private_test_cases": packed({"a": "b"})}, "private_test_cases", "is a packed object"),
        ("livecodebench", {"public_test_cases": "[3]"}, "public_test_cases", "is not a JSON list of objects"),
        (
            "livecodebench",
            {"public_test_cases": '[{"testtype": "x"}]'},
            "public_test_cases.testtype",
            "is 'x'; expected 'stdin'",
        ),
        ("livecodebench", {"metadata": "no"}, "metadata", "is not JSON"),
        ("sandboxfusion_stdio", {"test": "{}"}, "test", "is not a JSON list"),
        ("sandboxfusion_stdio", {"test": '[{"input": {}}]'}, "test", "has an input that is missing; expected text"),
        ("sandboxfusion_livecodebench", {"test": packed("{}")}, "test.input_output", "is missing; expected text"),
        ("sandboxfusion_mbpp", {"labels": {}}, "labels.test_setup_code", "is missing; expected text"),
    ],
)
def test_rows_that_do_not_fit_name_the_field(name, changes, field, message):
    with pytest.raises(FieldProblem) as caught:
        shaped(name, **changes)
    assert caught.value.field == field and message in str(caught.value)


@pytest.mark.parametrize(
    "name", ["humaneval", "mbpp", "mbpp_sanitized", "bigcodebench", "sandboxfusion_bigcodebench", "sandboxfusion_mbpp"]
)
def test_python_tests_need_python(name):
    with pytest.raises(FieldProblem, match="is 'cpp'; the tests of .* are Python code"):
        shaped(name, language="cpp")


def test_lettered_options_in_either_mark_and_nothing_else():
    assert shaped("lettered", options="A. f(A) B. 2 C. B2", Answer="C").reference == {
        "answer": "C",
        "choices": ["f(A)", "2", "B2"],
    }
    with pytest.raises(FieldProblem, match="has the marks"):
        shaped("lettered", options="A) 1 C) 2")
    with pytest.raises(FieldProblem, match="is 'E'; expected one of"):
        shaped("lettered", Answer="E")


def test_mmlu_pro_refuses_a_number_outside():
    with pytest.raises(FieldProblem, match="is 5, but there are 5 options"):
        shaped("mmlu_pro", answer_index=5)


def test_knights_are_named_and_none_is_a_word():
    assert shaped("knights_and_knaves").reference == {"answer": "Ann"}
    assert shaped("knights_and_knaves", solution=[False, False]).reference == {"answer": "none"}
    with pytest.raises(FieldProblem, match="has 1 values"):
        shaped("knights_and_knaves", solution=[True])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"func_name": "validate_word_constraint", "N": 50, "quantifier": "at most"},
            ("length_constraints:number_words", {"num_words": 51, "relation": "less than"}),
        ),
        (
            {"func_name": "verify_sentence_constraint", "N": 3, "quantifier": "at least"},
            ("length_constraints:number_sentences", {"num_sentences": 3, "relation": "at least"}),
        ),
        ({"func_name": "verify_keywords", "keyword_list": ["rain"]}, ("keywords:existence", {"keywords": ["rain"]})),
    ],
)
def test_constraints_of_tulu_become_instructions(given, expected):
    reference = shaped("rlvr_ifeval", ground_truth=json.dumps(given)).reference
    assert (reference["instruction_id_list"], reference["kwargs"]) == ([expected[0]], [expected[1]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"func_name": "verify_letter_frequency", "N": 3}, "for which IFEval has no instruction"),
        ({"func_name": "validate_word_constraint", "N": 50, "quantifier": "around"}, "no instruction of IFEval says"),
        ({"func_name": "verify_keywords"}, "gives verify_keywords no 'keyword_list'"),
        ({}, "is missing"),
    ],
)
def test_constraints_that_cannot_be_said_are_refused(given, message):
    with pytest.raises(FieldProblem, match=message):
        shaped("rlvr_ifeval", ground_truth=json.dumps(given))
