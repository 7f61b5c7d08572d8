"""Prompts that open the thinking or a fence: graders read completions with that opening, and the policy learns without it."""

from __future__ import annotations

from typing import Any

import pytest
from qwen_like import CHATML, THINKING_CHATML, qwen_like_tokenizer
from writes import Writes

from verigym.envs import Environment, Gate, Prompt, Status, UsageError, WeightedSum, load
from verigym.envs.composition.terms import terms_of
from verigym.envs.grading import Grader
from verigym.trainer.credit.rows import Credit, training_rows
from verigym.trainer.credit.step_rewards import steps_of
from verigym.trainer.evaluation.thinking import ThinkingEngine, ThinkingRules
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import Group, collect
from verigym.trainer.stages.sample_log import _completion, samples_of_group
from verigym.trainer.tasks.mixture import Source

ANSWERED = "Two and two.\n</think>\n\nIt is \\boxed{4}"
UNFINISHED = "It is \\boxed{4}, or is it..."
FORGOTTEN = "It is \\boxed{4}"
AGAIN = "<think>\nTwo and two.\n</think>\n\nIt is \\boxed{4}"
TEXTS = [ANSWERED, UNFINISHED, FORGOTTEN, AGAIN]


def codec(template: str = THINKING_CHATML, **kwargs: Any) -> Codec:
    return Codec(qwen_like_tokenizer([AGAIN, "What is 2+2?"], template=template), None, kwargs)


def rolled(codec: Codec, environment: Environment, prompt: Prompt, texts: list[str] = TEXTS) -> Group:
    source = Source("sums", environment, 1.0, lambda index: prompt, ())
    with Grader(environment, workers=0) as grader:
        (group,) = collect(
            Writes(codec, texts),  # type: ignore[arg-type]
            codec,
            lambda source: grader,
            [(source, prompt)],
            samples=len(texts),
            key=("test",),
            max_new_tokens=64,
            temperature=1.0,
        )
    return group


def test_an_answer_within_an_unfinished_thought_is_none() -> None:
    math = load("math")
    prompt = math.prompt("What is 2+2?", answer="4")
    opens = rolled(codec(), math, prompt)
    assert opens.texts == tuple("<think>\n" + text for text in TEXTS)
    assert [score.status for score in opens.scores] == [
        Status.CORRECT,
        Status.TRUNCATED,
        Status.NO_ANSWER,
        Status.CORRECT,
    ]
    assert "the thinking never closes" in opens.scores[2].reason
    for other in (codec(CHATML), codec(enable_thinking=False)):
        plain = rolled(other, math, prompt)
        assert plain.texts == tuple(TEXTS)
        assert [score.status for score in plain.scores] == [Status.CORRECT] * 4


def test_a_layout_counts_the_tag_of_the_prompt() -> None:
    layout = load("format", preset="r1")
    scores = rolled(codec(), layout, layout.prompt("What is 2+2?")).scores
    assert [score.status for score in scores] == [Status.CORRECT, Status.TRUNCATED, Status.INCORRECT, Status.INCORRECT]
    assert "<think> stands 2 times" in scores[3].reason
    scores = rolled(codec(CHATML), layout, layout.prompt("What is 2+2?")).scores
    assert [score.status for score in scores] == [Status.INCORRECT, Status.TRUNCATED, Status.INCORRECT, Status.CORRECT]


def test_a_layout_that_counts_it_twice_is_refused_wherever_it_stands() -> None:
    layout, math = load("format", preset="r1", opened_by_prompt=True), load("math")
    gated = Gate({"format": layout}, {"math": math})
    nested = WeightedSum({"gated": 1.0, "process": 0.1}, {"gated": gated, "process": load("process", kind="arithmetic")})
    inner = gated.around(math.prompt("What is 2+2?", answer="4"))
    prompts: list[tuple[Environment, Prompt]] = [
        (layout, layout.prompt("What is 2+2?")),
        (gated, inner),
        (nested, nested.around(inner)),
    ]
    for environment, prompt in prompts:
        with pytest.raises(UsageError, match="source 'sums': format: leave out opened_by_prompt: prompts end with '<think>'"):
            rolled(codec(), environment, prompt)
    prompt = layout.prompt("What is 2+2?")
    assert [score.status for score in rolled(codec(CHATML), layout, prompt, [ANSWERED]).scores] == [Status.CORRECT]


def test_a_program_whose_fence_the_prompt_has_opened_is_found() -> None:
    code = load("format", preset="boxed", boxes=None, fence="python")
    fenced = CHATML.replace("assistant\n'", "assistant\n```python\n'")
    prompt = code.prompt("Write it.")
    opens = rolled(codec(fenced), code, prompt, ["print(4)\n```"])
    assert opens.texts == ("```python\nprint(4)\n```",)
    assert [score.status for score in opens.scores] == [Status.CORRECT]
    assert [score.status for score in rolled(codec(CHATML), code, prompt, ["print(4)\n```"]).scores] == [Status.INCORRECT]


def test_trained_rows_are_what_was_sampled_with_its_end_token() -> None:
    math, opens = load("math"), codec()
    group = rolled(opens, math, math.prompt("What is 2+2?", answer="4"))
    (rows,) = training_rows([group], {"sums": Credit(lambda rewards, scored, **_: rewards)}, opens, mask_truncated=False)
    assert [row.token_ids for row in rows] == [done.token_ids for done in group.generated]
    assert [opens.tokenizer.decode(row.token_ids) for row in rows] == [
        text if text.endswith("...") else text + "<|im_end|>" for text in TEXTS
    ]
    assert all(row.prompt_ids == group.prompt_ids for row in rows)


def test_steps_are_counted_in_sampled_tokens() -> None:
    environment = load("process", kind="arithmetic", split="lines")
    opens = codec()
    text = "2+2=4\n2+3=6\n</think>\n\nIt is \\boxed{6}"
    group = rolled(opens, environment, environment.prompt("What is 2+2?"), [text])
    (score,), (done,), (term,) = group.scores, group.generated, terms_of(environment)
    assert score.steps
    rewards, ends = steps_of(score, term, opens, done, group.prompt_ids)
    plain = rolled(codec(CHATML), environment, environment.prompt("What is 2+2?"), [text])
    expected, expected_ends = steps_of(plain.scores[0], term, opens, plain.generated[0], plain.prompt_ids)
    assert (rewards, ends) == (expected, expected_ends)
    assert 0 < ends[0] < ends[1] < len(done.token_ids)


def test_a_completion_of_a_log_is_graded_again_with_the_tokens_that_were_sampled() -> None:
    math, opens = load("math"), codec()
    prompt = math.prompt("What is 2+2?", answer="4")
    group = rolled(opens, math, prompt)
    for sample, done in zip(samples_of_group(0, group).samples, group.generated, strict=True):
        again = _completion(sample, opens, prompt)
        assert again.text == sample.text
        assert again.token_ids == tuple(token for token in done.token_ids if token != opens.end_id)


def test_a_budget_for_thinking_that_the_prompt_has_ended_is_refused() -> None:
    closed, opens = codec(enable_thinking=False), codec()
    prompt = load("math").prompt("What is 2+2?", answer="4")
    options: dict[str, Any] = {"max_new_tokens": 8, "temperature": 0.0, "on_finished": lambda *_: None}
    with pytest.raises(UsageError, match="thinking_budgets: the chat template ends prompts with '</think>'"):
        ThinkingEngine(Writes(closed, TEXTS), closed, ThinkingRules(8)).generate([closed.encode(prompt)], [[(0,)]], **options)  # type: ignore[arg-type]
    engine = ThinkingEngine(Writes(opens, [ANSWERED]), opens, ThinkingRules(64))  # type: ignore[arg-type]
    ((done,),) = engine.generate([opens.encode(prompt)], [[(0,)]], **options | {"max_new_tokens": 64})
    assert opens.completion(opens.encode(prompt), done.token_ids) == f"<think>\n{ANSWERED}"
    assert done.thought is not None and not done.thought.forced
