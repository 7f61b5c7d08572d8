import json
import math

import pytest
from pydantic import ValidationError
from sample_envs import Answer

from verigym.envs import Completion, Message, Prompt, Score, ScoreError, Status, StepScore, UsageError, load
from verigym.envs.contract.schema import canonical_json, sha256_hex


def prompt(text="q", answer="4", environment="exact", **more):
    return Prompt(
        messages=(Message(role="user", content=text),),
        environment=environment,
        references={environment: Answer(answer=answer)},
        **more,
    )


def test_key_is_over_messages_environment_and_references_but_not_metadata():
    one = prompt()
    assert len(one.key) == 32 and int(one.key, 16) >= 0
    content = {
        "messages": [{"role": "user", "content": "q"}],
        "environment": "exact",
        "references": {"exact": {"answer": "4"}},
    }
    spelled = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert one.key == sha256_hex(spelled)[:32]
    assert prompt(metadata={"row": 7}).key == one.key
    assert len({one.key, prompt(text="r").key, prompt(answer="5").key, prompt(environment="other").key}) == 4


def test_a_key_that_does_not_belong_is_refused():
    assert prompt(key=prompt().key) == prompt()
    with pytest.raises(ValidationError, match="does not belong to this prompt"):
        prompt(key="0" * 32)


def test_values_are_frozen_and_refuse_unknown_fields():
    with pytest.raises(ValidationError, match="frozen"):
        prompt().environment = "other"
    with pytest.raises(ValidationError, match="frozen"):
        Score.correct().reward = 2.0
    with pytest.raises(ValidationError, match="extra"):
        Completion(text="x", tokens=3)
    with pytest.raises(ValidationError):
        Prompt(messages=(), environment="e", references={})


def test_text_is_all_messages():
    messages = (Message(role="system", content="be brief"), Message(role="user", content="2+2?"))
    assert Prompt(messages=messages, environment="e", references={}).text == "be brief\n2+2?"


def test_completion_digest_covers_everything_a_verdict_may_depend_on():
    variants = [
        Completion(text="x"),
        Completion(text="y"),
        Completion(text="x", token_ids=(1,)),
        Completion(text="x", finish_reason="length"),
        Completion(text="x\ud800"),
    ]
    assert len({c.digest for c in variants}) == len(variants)
    assert Completion.of("x") == variants[0]
    assert Completion.of(variants[2]) is variants[2]


@pytest.mark.parametrize(
    ("score", "reward", "status"),
    [
        (Score.correct(), 1.0, "correct"),
        (Score.partial(0.5), 0.5, "partial"),
        (Score.incorrect(), 0.0, "incorrect"),
        (Score.no_answer(), 0.0, "no_answer"),
        (Score.truncated(), 0.0, "truncated"),
        (Score.limit(reward=-1.0), -1.0, "limit"),
        (Score.failed("backend", "down", retryable=True), None, "error"),
    ],
)
def test_named_constructors(score, reward, status):
    assert (score.reward, score.status.value) == (reward, status)
    assert score.scored is (status != "error")
    assert Score.model_validate_json(score.model_dump_json()) == score


ERROR = ScoreError(kind="internal", message="m")


@pytest.mark.parametrize(
    "fields",
    [
        {"reward": None, "status": Status.CORRECT},
        {"reward": None, "status": Status.ERROR},
        {"reward": 0.0, "status": Status.ERROR, "error": ERROR},
        {"reward": 0.0, "status": Status.INCORRECT, "error": ERROR},
        {"reward": None, "status": Status.INCORRECT, "error": ERROR},
    ],
)
def test_no_reward_error_status_and_error_go_together(fields):
    with pytest.raises(ValidationError, match="go together"):
        Score(**fields)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_only_finite_numbers(bad):
    with pytest.raises(ValidationError, match="finite"):
        Score.correct(reward=bad)
    with pytest.raises(ValidationError, match="part is"):
        Score(reward=1.0, status=Status.CORRECT, components={"part": bad})
    with pytest.raises(ValidationError):
        StepScore(start=0, end=1, reward=bad)


def test_steps_are_ordered_offsets():
    assert StepScore(start=2, end=2, reward=1.0).end == 2
    with pytest.raises(ValidationError, match="before its start"):
        StepScore(start=2, end=1, reward=1.0)


def test_canonical_json_has_one_spelling():
    assert canonical_json({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"é"]}'
    with pytest.raises(ValueError):
        canonical_json(math.nan)


def test_one_wrong_element_is_one_problem() -> None:
    with pytest.raises(UsageError) as caught:
        load("code").prompt("x", tests=[{"type": "stdio", "stdin": "1"}])
    assert str(caught.value).endswith("field 'tests.0.stdout' is missing")
    with pytest.raises(UsageError, match="field 'tests': expected a list, or the JSON text of one"):
        load("code").prompt("x", tests="x")
