import gzip
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from needs import require

import verigym
from verigym.envs import Completion, EnvironmentFailure, Status, UsageError
from verigym.envs.extraction.methods import METHODS, last_box
from verigym.envs.isolated.client import MathVerifyResult, SymbolicLimit
from verigym.envs.math.environment import MathEnvironment

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "data"
CASES = [json.loads(line) for line in (ROOT / "tests" / "cases" / "math.jsonl").read_text().splitlines()]
OWN = {"section", "completion", "gold", "expected", "why", "question", "finish_reason"}


def data(path: str) -> list[dict[str, Any]]:
    file = DATA / path
    require("shared data")
    lines = gzip.open(file, "rt").read() if file.suffix == ".gz" else file.read_text()
    return [json.loads(line) for line in lines.splitlines()]


@cases("case", CASES, ids=lambda case: f"{case['section']}: {case['why']}")
def test_cases(case: dict[str, Any]) -> None:
    env = MathEnvironment(**{name: value for name, value in case.items() if name not in OWN})
    prompt = env.prompt(case.get("question", "What is it? Put it in \\boxed{}."), answer=case["gold"])
    score = env.score(prompt, Completion(text=case["completion"], finish_reason=case.get("finish_reason", "stop")))
    assert score.status == case["expected"], score.reason
    assert score.reward == (1.0 if case["expected"] == "correct" else 0.0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gold", ["4", "$-\\frac{1}{2}$", "\\boxed{x+1}", "\\text{Evelyn}", "\\boxed{2}\\boxed{3}", "[0,1)"])
def test_the_gold_fits_the_extraction(method: str, gold: str) -> None:
    env = MathEnvironment(extract=method)
    prompt = env.prompt("q", answer=gold)
    assert env.score(prompt, env.gold(prompt)).status is Status.CORRECT


@pytest.mark.parametrize(("answer", "golds"), [(4, ("4",)), (0.5, ("0.5",)), ("x", ("x",)), ([1, "2"], ("1", "2"))])
def test_references_take_text_numbers_and_lists(answer: Any, golds: tuple[str, ...]) -> None:
    env = MathEnvironment()
    prompt = env.prompt("q", answer=answer)
    assert env.reference(prompt).golds == golds
    assert env.load_prompt(prompt.model_dump(mode="json")) == prompt


@pytest.mark.parametrize("answer", ["", " ", "$$", [], ["4", ""], None, True, {"a": 1}])
def test_references_refuse_what_is_no_answer(answer: Any) -> None:
    with pytest.raises(UsageError, match="answer"):
        MathEnvironment().prompt("q", answer=answer)


def test_options_are_checked() -> None:
    with pytest.raises(UsageError, match="extract"):
        MathEnvironment(extract="box")
    with pytest.raises(UsageError, match="did you mean 'symbolic'"):
        MathEnvironment(symbolik=False)
    assert MathEnvironment(extract="boxed").grader == MathEnvironment(extract=["boxed"]).grader


def test_the_reason_names_extraction_tier_and_policies() -> None:
    env = MathEnvironment(extract=["boxed", "label"])
    prompt = env.prompt("q", answer="\\frac{1}{2}")
    assert env.score(prompt, "\\boxed{\\dfrac{1}{2}}").reason == "boxed: the gold's text"
    assert env.score(prompt, "A: 0.5").reason == "label: equal (exact)"
    assert env.score(prompt, "\\boxed{1=0.5}").reason == "boxed: not equal: another value"
    assert env.score(prompt, "\\boxed{50}\\%").reason == "boxed: equal (exact)"
    assert env.score(env.prompt("q", answer="28\\%"), "\\boxed{28}").reason == "boxed: equal (exact); percent=gold"
    assert env.score(env.prompt("q", answer="x+1"), "\\boxed{1+x}").reason == "boxed: equal (canonical)"


def test_a_gold_that_does_not_parse_is_our_fault() -> None:
    env = MathEnvironment()
    prompt = env.prompt("q", answer=r"\frac{1")
    score = env.score(prompt, r"\boxed{x}")
    assert score.reward is None
    assert score.error is not None
    assert score.error.kind == "gold_invalid"
    both = env.prompt("q", answer=[r"\frac{1", "x"])
    assert env.score(both, r"\boxed{x}").status is Status.CORRECT
    assert env.score(env.prompt("q", answer="\\text{no solution}"), r"\boxed{x}").status is Status.INCORRECT


def test_the_audit_says_what_is_wrong_with_a_gold() -> None:
    env = MathEnvironment()
    found = env.audit(env.prompt("q", answer=["4", r"\frac{1"]))
    assert found is not None
    assert "cannot be read" in found and r"\\frac{1" in found and "write it as one formula" in found
    assert env.audit(env.prompt("q", answer=["4", "x = 5", "\\text{Evelyn}", "[0, 1)"])) is None
    words = env.audit(env.prompt("q", answer="x for some $a > 0$"))
    assert words is not None
    assert "give the bare answer" in words


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("The answer is $\\boxed{5}$.", "5"),
        ("so $x = \\boxed{20}$ percent", "20\\%"),
        ("\\boxed{1} and \\boxed{2}", "2, 1"),
        ("work\n#### 1,234", "1234"),
        ("answer is sqrt(2)", "\\sqrt2"),
        ("It is a long way to the result, and so the final answer is $x+1$. I hope it is correct.", "1+x"),
    ],
)
def test_golds_in_sentences(gold: str, answer: str) -> None:
    env = MathEnvironment()
    prompt = env.prompt("q", answer=gold)
    assert env.score(prompt, rf"\boxed{{{answer}}}").status is Status.CORRECT
    assert env.score(prompt, env.gold(prompt)).status is Status.CORRECT


@pytest.mark.parametrize("boxes", [r"\boxed{1}\boxed{2}\boxed{3}\boxed{4}", r"\boxed{3}, \boxed{4}", r"\boxed{5} or \boxed{4}"])
def test_boxes_in_a_row_are_no_answer_where_one_is_asked(boxes: str) -> None:
    env = MathEnvironment()
    for gold in ("1", "4"):
        assert env.score(env.prompt("q", answer=gold), boxes).status is Status.INCORRECT


@pytest.mark.parametrize(
    ("gold", "completion", "correct"),
    [
        ("50", r"\boxed{50}\%", True),
        ("0.5", r"\boxed{50}\%", True),
        ("-50", r"\boxed{-50}\%", True),
        ("-0.5", r"\boxed{-50}\%", True),
        ("50", r"\boxed{-50}\%", False),
        ("5\\%", r"\boxed{50}\%", False),
        ("5 \\text{ cm}", r"\boxed{5} cm", True),
        ("5 \\text{ cm}", r"\boxed{5} kg", False),
        ("1, 2", r"\boxed{1} papers and \boxed{2} bins", True),
        ("2", r"First \boxed{1}. No, wait: \boxed{2}", True),
    ],
)
def test_what_stands_around_the_box(gold: str, completion: str, correct: bool) -> None:
    env = MathEnvironment()
    assert (env.score(env.prompt("Of what, and how many percent?", answer=gold), completion).reward == 1.0) is correct


def test_a_plain_run_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise EnvironmentFailure("unavailable", "no worker")

    monkeypatch.setattr("verigym.envs.math.judging.tiers.symbolic_equal", fail)
    env = MathEnvironment()
    env.prepare()
    prompt = env.prompt("q", answer="x+1")
    assert env.score(prompt, r"\boxed{1 + x}").status is Status.CORRECT
    assert env.score(prompt, r"\boxed{x + 2}").status is Status.INCORRECT
    assert env.score(env.prompt("q", answer="5"), r"\boxed{1/0}").status is Status.INCORRECT
    unknown = env.prompt("q", answer=r"\int_0^1 g(x)\,dx")
    assert env.score(unknown, r"\boxed{\int_0^1 2 g(x)\,dx}").reward is None
    alone = MathEnvironment(symbolic=False)
    assert alone.score(unknown, r"\boxed{\int_0^1 2 g(x)\,dx}").status is Status.INCORRECT


def test_an_answer_beyond_the_limits_is_the_answers_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def slow(*args: object, **kwargs: object) -> None:
        calls.append(args)
        raise SymbolicLimit("the comparison ran out of time")

    monkeypatch.setattr("verigym.envs.math.judging.tiers.symbolic_equal", slow)
    env = MathEnvironment()
    prompt = env.prompt("q", answer=[r"\int_0^1 g(x)\,dx", r"\int_0^1 3 g(x)\,dx", "7"])
    assert env.score(prompt, r"\boxed{\int_0^1 2 g(x)\,dx}").status is Status.LIMIT
    assert len(calls) == 1
    assert env.score(prompt, r"\boxed{7}").status is Status.CORRECT


def test_math_verify_is_asked_only_where_no_tier_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def opinion(gold: str, answer: str, **limits: object) -> MathVerifyResult:
        asked.append(answer)
        return MathVerifyResult(True, True, True)

    monkeypatch.setattr("verigym.envs.isolated.client.compare", opinion)
    env = MathEnvironment(math_verify=True, symbolic=False)
    prompt = env.prompt("q", answer=r"\int_0^1 g(x)\,dx")
    assert env.score(prompt, r"\boxed{5}").status is Status.INCORRECT or asked
    score = env.score(prompt, r"\boxed{\int_0^1 2 g(x)\,dx}")
    assert (score.status, score.reason) == (Status.CORRECT, "boxed: equal (Math-Verify)")
    asked.clear()
    assert env.score(env.prompt("q", answer="4"), r"\boxed{5}").status is Status.INCORRECT
    assert asked == []


def test_environments_pickle() -> None:
    env = pickle.loads(pickle.dumps(MathEnvironment(extract="hash")))  # noqa: S301
    assert env.score(env.prompt("q", answer=4), "#### 4").reward == 1.0


def test_import_is_light() -> None:
    heavy = ("sympy", "math_verify", "torch", "numpy")
    code = f"import sys, verigym.envs.math.environment; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_graded_gsm8k_agrees_with_its_labels() -> None:
    env = verigym.load("math", extract="label")
    rows = data("graded_gsm8k_openai/example_model_solutions.jsonl.gz")
    disagreements = []
    for index, row in enumerate(rows):
        prompt = env.prompt(row["question"], answer=row["ground_truth"].rsplit("A:", 1)[1].strip())
        for model, graded in row.items():
            if model not in ("question", "ground_truth"):
                score = env.score(prompt, graded["solution"])
                if (score.reward == 1.0) is not graded["is_correct"]:
                    disagreements.append((index, model, score.reason))
    assert disagreements == []


def test_golds_of_gsm8k_pass_without_the_string_tier() -> None:
    env = verigym.load("math", string_tier=False)
    for row in data("gsm8k/test.jsonl.gz"):
        prompt = env.prompt(row["question"], answer=row["answer"].rsplit("####", 1)[1].strip())
        assert env.score(prompt, str(env.gold(prompt))).status is Status.CORRECT


def test_golds_of_math_pass_without_the_string_tier() -> None:
    env = verigym.load("math", string_tier=False)
    rows = data("math/math_test_5000.jsonl.gz")[::20]
    failed = []
    for row in rows:
        prompt = env.prompt(row["problem"], answer=last_box(row["solution"]))
        if env.score(prompt, str(env.gold(prompt))).status is not Status.CORRECT:
            failed.append(row["solution"][-80:])
    assert failed == []
