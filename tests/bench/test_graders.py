import pytest
from patience import HANG_S

from verigym.bench.cases import Case
from verigym.bench.graders import InProcess, Ours, resolve
from verigym.bench.isolated import IsolatedGrader, _checked
from verigym.bench.verdicts import Verdict
from verigym.envs import UsageError


@pytest.fixture(autouse=True)
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(__file__).rpartition("/")[0])


def case(answer, *golds, level="answer", completion=None):
    return Case(1, 1, golds or ("1",), answer, completion or rf"\boxed{{{answer}}}", True, level, False)


@pytest.fixture
def isolated():
    opened = []

    def start(target, **limits):
        grader = IsolatedGrader(target, **limits)
        opened.append(grader)
        grader.start()
        return grader

    yield start
    for grader in opened:
        grader.close()


def test_ours():
    ours = Ours({})
    ours.start()
    assert ours.name.startswith("math@")
    kinds = [ours.grade(one).kind for one in (case("1"), case("2"), case("2", "1", "2"), case("x", completion="none"))]
    assert kinds == ["accepted", "rejected", "accepted", "no_answer"]
    assert ours.grade(case("so it is $1$", level="completion_unboxed", completion="so it is $1$")).kind == "accepted"


def test_an_unusable_gold_is_an_error_of_ours():
    assert Ours({}).grade(case("1", "$$")).kind == "error"


CALLABLES = [
    ("same", "1", "accepted", ""),
    ("same", "2", "rejected", ""),
    ("one_or_zero", "1", "accepted", ""),
    ("one_or_zero", "2", "rejected", ""),
    ("words", "1", "error", "it returned str; expected bool"),
    ("raises", "1", "error", "RuntimeError: cannot read 1"),
    ("leaves", "1", "error", "SystemExit: 3"),
]


def test_callables(isolated, capsys):
    named = isolated("peers:named")
    for name, answer, kind, reason in CALLABLES:
        for verdict in (InProcess(f"peers:{name}").grade(case(answer)), named.grade(case(answer, name))):
            assert (verdict.kind, verdict.reason) == (kind, reason), name
    assert capsys.readouterr().out == "", "what a grader prints must not get into the table"


def test_any_of_several_golds():
    assert InProcess("peers:same").grade(case("2", "1", "2")).accepted


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("peers", "expected math-verify or module:function"),
        ("peers:", "expected math-verify or module:function"),
        ("no_such_module:f", "ModuleNotFoundError"),
        ("peers:no_such", "AttributeError"),
        ("peers:number", "it is int, which cannot be called"),
    ],
)
def test_callables_that_cannot_be_loaded(target, message):
    with pytest.raises(UsageError, match=message):
        resolve(target)


def test_an_isolated_callable_that_cannot_be_loaded():
    with pytest.raises(UsageError, match="--against 'no_such_module:f' cannot be loaded: .*ModuleNotFoundError"):
        IsolatedGrader("no_such_module:f").start()


@pytest.mark.slow
def test_a_hang_is_a_limit_and_the_next_case_is_graded(isolated):
    grader = isolated("peers:hangs", timeout_s=0.5)
    verdict = grader.grade(case("hang"))
    assert (verdict.kind, verdict.reason) == ("limit", "killed after 0.5 s")
    assert verdict.seconds >= 0.5
    grader._timeout_s = HANG_S
    assert grader.grade(case("1")).kind == "accepted"


@pytest.mark.slow
def test_a_death_is_an_error_and_the_next_case_is_graded(isolated):
    grader = isolated("peers:dies")
    verdict = grader.grade(case("die"))
    assert (verdict.kind, verdict.reason) == ("error", "its process is lost: it has ended with exit code 9")
    assert grader.grade(case("1")).kind == "accepted"


def test_a_process_that_cannot_be_started_again_is_an_error_of_each_case(isolated, monkeypatch):
    grader = isolated("peers:dies")
    grader.grade(case("die"))
    monkeypatch.setattr("verigym.bench.isolated.START_S", 0.0)
    verdict = grader.grade(case("1"))
    assert verdict.kind == "error"
    assert "cannot be started again" in verdict.reason


def test_memory_is_limited(isolated):
    grader = isolated("peers:eats", memory_mb=1024)
    assert grader.grade(case("eat")).kind in ("limit", "error")
    assert grader.grade(case("1")).kind == "accepted"


def test_keys_in_the_environment_do_not_reach_it_and_long_texts_do(isolated, monkeypatch):
    monkeypatch.setenv("VERIGYM_TEST_SECRET", "key")
    assert InProcess("peers:secret").grade(case("1")).kind == "accepted"
    grader, longer_than_a_pipe = isolated("peers:secret"), "x" * 3_000_000
    assert grader.grade(case("1")).kind == "rejected"
    assert grader.grade(case(longer_than_a_pipe, longer_than_a_pipe)).kind == "accepted"


@pytest.mark.slow
def test_math_verify(isolated):
    grader = isolated("math-verify")
    assert grader.name.startswith("math-verify ")
    assert grader.grade(case(r"\frac{2}{4}", "$1/2$")).kind == "accepted"
    assert grader.grade(case("3", "1/2")).kind == "rejected"
    assert grader.grade(case("", "1", completion="none of it")).kind == "no_answer"


AGREED = {"number": 7, "kind": "accepted", "reason": "r", "seconds": 0.5}


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 6},
        {"number": None},
        {"seconds": 1},
        {"seconds": float("nan")},
        {"seconds": -1.0},
        {"seconds": 9.0},
        {"kind": "perfect"},
        {"kind": ["accepted"]},
        {"reason": None},
    ],
)
def test_replies_that_were_not_agreed(changes):
    assert _checked({**AGREED, **changes}, 7, 1.0) is None
    assert _checked(AGREED, 7, 1.0) == Verdict("accepted", "r", 0.5)


@pytest.mark.slow
def test_a_process_that_talks_out_of_turn_is_replaced(isolated):
    grader = isolated("peers:chatters")
    assert grader.grade(case("chat")).kind == "accepted"
    assert grader.grade(case("x")).kind == "error"
    assert grader.grade(case("1")).kind == "accepted"
    assert grader.grade(case("x")).kind == "rejected"
