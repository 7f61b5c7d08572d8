import errno

import pytest

from verigym.envs import EnvironmentFailure, Score, Status
from verigym.envs.contract.blame import CONTROL_TEXT, describe, guarded
from verigym.envs.contract.schema import Completion


class Judge:
    """Raises what its table says for a text; else full marks. Remembers the texts."""

    def __init__(self, **table):
        self.table = table
        self.seen = []

    def __call__(self, completion):
        self.seen.append(completion.text)
        entry = self.table.get(completion.text)
        if callable(entry):
            entry = entry()
        if isinstance(entry, BaseException):
            raise entry
        return Score.correct() if entry is None else entry


def blame(judge, text="bad", gold="gold", floor=0.0):
    return guarded(judge, Completion(text=text), lambda: gold, floor)


def test_a_verdict_passes_through():
    judge = Judge()
    assert blame(judge) == Score.correct()
    assert judge.seen == ["bad"]


def test_text_that_always_raises_where_the_control_does_not_gets_the_floor():
    judge = Judge(bad=RecursionError("too deep"))
    score = blame(judge, floor=-1.0)
    assert (score.status, score.reward) == (Status.LIMIT, -1.0)
    assert "RecursionError: too deep" in score.reason
    assert judge.seen == ["bad", "bad", "gold", "bad"]


def test_a_grader_that_raises_on_the_control_too_is_at_fault():
    score = blame(Judge(bad=ValueError("x"), gold=ValueError("x")))
    assert score.error.kind == "internal"
    assert "on a control item ValueError: x" in score.reason


def test_a_control_without_a_score_does_not_condemn_the_text():
    score = blame(Judge(bad=ValueError("x"), gold=Score.failed("backend", "down")))
    assert score.status is Status.ERROR


def test_without_a_gold_a_plain_answer_is_the_control():
    judge = Judge(bad=ValueError("x"))
    assert blame(judge, gold=None).status is Status.LIMIT
    assert judge.seen[-2] == CONTROL_TEXT


def test_a_back_end_that_fails_on_every_answer_is_ours_even_without_a_gold():
    def judge(completion):
        if not completion.text.strip():
            return Score.no_answer(reason="empty")
        raise RuntimeError("the judge's server answered 503")

    score = guarded(judge, Completion(text="an answer"), lambda: None, 0.0)
    assert score.status is Status.ERROR


def test_a_message_that_changes_does_not_save_a_text_from_its_trial():
    calls = []

    def judge(completion):
        calls.append(completion.text)
        if completion.text == "bad":
            raise ValueError(f"failure number {len(calls)}")
        return Score.correct()

    assert guarded(judge, Completion(text="bad"), lambda: "gold", 0.0).status is Status.LIMIT


@pytest.mark.parametrize("number", [errno.E2BIG, errno.ENOENT, errno.ENAMETOOLONG, errno.EINVAL])
def test_an_error_of_the_system_that_arguments_cause_is_tried_like_any_other(number):
    error = OSError(number, "of the text")
    assert blame(Judge(bad=error)).status is Status.LIMIT
    assert blame(Judge(bad=error, gold=error)).error.kind == "internal"


@pytest.mark.parametrize(
    "score",
    [
        Score.incorrect().model_copy(update={"reward": None}),
        Score.correct().model_copy(update={"reward": float("nan")}),
        Score.failed("backend", "down").model_copy(update={"error": None}),
        Score.correct().model_copy(update={"reward": "1"}),
        Score.model_construct(reward=None, status="incorrect"),
    ],
    ids=["no reward", "nan", "no error", "a text", "a text as its status"],
)
def test_a_score_that_contradicts_itself_is_no_verdict(score):
    assert blame(Judge(bad=score)).status is Status.LIMIT
    found = blame(Judge(bad=score, gold=score))
    assert found.error.kind == "internal" and found.reward is None


def test_an_exception_whose_text_raises_is_described():
    class Nameless(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    assert "Nameless: its text cannot be had: RuntimeError" in blame(Judge(bad=Nameless())).reason


@pytest.mark.parametrize("error", [OSError("disk"), OSError(errno.EMFILE, "files"), ConnectionError("net"), ImportError("lib")])
def test_what_no_text_can_cause_is_ours_without_a_trial(error):
    judge = Judge(bad=error)
    score = blame(judge)
    assert score.error.kind == "backend" and score.error.retryable
    assert judge.seen == ["bad"]


def test_declared_failures_keep_their_kind():
    score = blame(Judge(bad=EnvironmentFailure("gold_invalid", "no number")))
    assert (score.error.kind, score.error.message, score.error.retryable) == ("gold_invalid", "no number", False)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (
            lambda: EnvironmentFailure("server", "it is down", retryable=True),
            "server: it is down (kind 'server' is unknown; the kinds",
        ),
        (
            lambda: EnvironmentFailure("it is down", retryable=1),
            "it is down (kind 'it is down' is unknown; the kinds are gold_invalid,",
        ),
        (lambda: EnvironmentFailure(None, OSError("no disk"), retryable=True), "None: no disk (kind 'None' is unknown"),
    ],
)
def test_a_failure_that_is_reported_wrongly_is_no_reward(failure, message):
    def judge():
        raise failure()

    for score in (blame(Judge(bad=judge)), failure().score()):
        assert (score.reward, score.error.kind, score.error.retryable) == (None, "backend", True)
        assert score.error.message.startswith(message)


def test_a_failed_score_of_an_unknown_kind_is_no_reward():
    score = Score.failed("server", "it is down")
    assert (score.reward, score.error.kind) == (None, "backend") and "server: it is down" in score.reason


def test_a_second_try_that_works_counts():
    errors = iter([ValueError("fluke"), None])
    assert blame(Judge(bad=lambda: next(errors))) == Score.correct()


def test_exits_are_caught_and_interrupts_are_not():
    assert blame(Judge(bad=SystemExit(1))).status is Status.LIMIT
    with pytest.raises(KeyboardInterrupt):
        blame(Judge(bad=KeyboardInterrupt()))


@pytest.mark.parametrize("value", [0.5, "correct", False, {"reward": 1.0}])
def test_what_is_no_score_is_an_error(value):
    assert blame(Judge(bad=value)).status is Status.LIMIT  # only this text brings the grader to it
    score = blame(Judge(bad=value, gold=value))
    assert score.error.kind == "internal"
    assert "instead of a Score" in score.reason


def test_descriptions_are_one_short_line():
    text = describe(ValueError("line\nline " + "x" * 1000))
    assert text.startswith("ValueError: line line xxx") and text.endswith("...")
    assert len(text) == 300
