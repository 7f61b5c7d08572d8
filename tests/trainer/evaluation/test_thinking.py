"""Thinking budgets: where thoughts end, what is put in, what counts as sampled, and accuracy by budget."""

from __future__ import annotations

import json
import shutil
from itertools import takewhile
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from verigym import cli
from verigym.envs import UsageError
from verigym.trainer.engines.base import Generated, Thought
from verigym.trainer.evaluation.config import EvalConfig
from verigym.trainer.evaluation.run import run_evaluation
from verigym.trainer.evaluation.thinking import ThinkingEngine, ThinkingRules
from verigym.trainer.logprobs.forward import ForwardOptions, row_logprobs
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.loading import load_model
from verigym.trainer.stages.sample_log import read_samples

PROMPTS = 6
SAMPLES = 4
FORCED = ThinkingRules(0).forced


@pytest.fixture(scope="module", params=["native", "transformers"])
def plain(request: pytest.FixtureRequest, sums_model: Path) -> Any:
    return engine_of(request.param, sums_model)


def engine_of(kind: str, folder: Path) -> Any:
    from verigym.trainer.engines.hf import TransformersEngine
    from verigym.trainer.engines.native.engine import NativeEngine

    model, tokenizer = load_model(folder, torch.device("cpu"))
    kinds = {"native": NativeEngine, "transformers": TransformersEngine}
    return kinds[kind](model.eval(), Codec(tokenizer, model.generation_config), rows_at_a_time=64, dtype="fp32")


def prompts(codec: Codec) -> list[tuple[int, ...]]:
    return [codec.encode_text(f"{a}+{a + 2}=?\n") for a in range(PROMPTS)]


def sampled(engine: Any, codec: Codec, *, answer: int = 12, temperature: float = 1.0) -> list[Generated]:
    """Every completion, checked to have been reported once."""
    keys = [[("test", p, g) for g in range(SAMPLES)] for p in range(PROMPTS)]
    reported: list[tuple[int, int, Generated]] = []
    found = engine.generate(
        prompts(codec),
        keys,
        max_new_tokens=answer,
        temperature=temperature,
        on_finished=lambda p, g, done: reported.append((p, g, done)),
    )
    assert sorted((p, g) for p, g, _ in reported) == [(p, g) for p in range(PROMPTS) for g in range(SAMPLES)]
    assert all(found[p][g] is done for p, g, done in reported)
    return [done for row in found for done in row]


def thinking(plain: Any, budget: int, **rules: Any) -> ThinkingEngine:
    return ThinkingEngine(plain, plain.codec, ThinkingRules(budget, **rules))


def thought_of(done: Generated) -> Thought:
    assert done.thought is not None and done.loss_mask is not None
    return done.thought


def test_a_thought_is_closed_after_exactly_so_many_tokens(plain: Any) -> None:
    codec = plain.codec
    put_in = codec.encode_text(FORCED)
    found = sampled(thinking(plain, 3), codec, answer=4)
    forced = [done for done in found if thought_of(done).forced]
    assert len(forced) > len(found) // 2, "its thoughts are longer than three tokens"
    for done in forced:
        assert thought_of(done).tokens == 3
        assert done.token_ids[3 : 3 + len(put_in)] == put_in and "</think>" not in codec.decode(done.token_ids[:3])
        answer = len(done.token_ids) - 3 - len(put_in)
        assert done.loss_mask == (True,) * 3 + (False,) * len(put_in) + (True,) * answer
        assert done.length == 3 + answer <= 3 + 4
        assert all(logp == 0 for logp in done.logprobs[3 : 3 + len(put_in)])
        assert done.finish_reason == ("stop" if done.token_ids[-1] in codec.eos_ids else "length")
    assert {done.finish_reason for done in forced} == {"stop", "length"}


def test_what_follows_is_sampled_after_what_was_put_in(plain: Any) -> None:
    """The log-probabilities are the model's after prompt, thought and the text that was put in."""
    codec = plain.codec
    asked = [prompt for prompt in prompts(codec) for _ in range(SAMPLES)]
    found = sampled(thinking(plain, 3, waits=1), codec)
    with torch.no_grad():
        completions = [done.token_ids for done in found]
        logp_BT = row_logprobs(plain.model, asked, completions, ForwardOptions(pad_id=codec.pad_id)).logp_BT
    for done, logp_T in zip(found, logp_BT.tolist(), strict=True):
        for written, mine, models in zip(done.loss_mask or (), done.logprobs, logp_T, strict=False):
            assert not written or mine == pytest.approx(models, abs=1e-4)


def test_thoughts_of_all_budgets_begin_alike(plain: Any) -> None:
    free, codec = sampled(plain, plain.codec, answer=24), plain.codec
    for budget in (2, 6):
        for done, whole in zip(sampled(thinking(plain, budget), codec), free, strict=True):
            kept = thought_of(done).tokens
            assert kept <= budget and done.token_ids[:kept] == whole.token_ids[:kept]


def test_what_ends_within_the_budget_is_as_without_one(plain: Any) -> None:
    free = sampled(plain, plain.codec, answer=24)
    within = sampled(thinking(plain, 24), plain.codec, answer=24)
    pairs = [(done, whole) for done, whole in zip(within, free, strict=True) if whole.finish_reason == "stop"]
    assert len(pairs) > SAMPLES
    for done, whole in pairs:
        assert (done.token_ids, done.logprobs) == (whole.token_ids, whole.logprobs)
        assert not thought_of(done).forced and all(done.loss_mask or ())


def test_an_answer_has_its_own_limit(plain: Any) -> None:
    found = sampled(thinking(plain, 24), plain.codec, answer=2)
    closed = [done for done in found if "</think>" in plain.codec.decode(done.token_ids)]
    assert any(done.finish_reason == "length" and not thought_of(done).forced for done in closed)
    for done in closed:
        text = plain.codec.decode(done.token_ids)
        _, _, answer = text.partition(FORCED if thought_of(done).forced else "</think>")
        assert len(plain.codec.encode_text(answer)) <= 2
        assert done.finish_reason == ("stop" if done.token_ids[-1] in plain.codec.eos_ids else "length")


@pytest.mark.parametrize(("waits", "minimum"), [(1, None), (2, None), (2, 12)])
def test_a_thought_that_ends_early_goes_on(waits: int, minimum: int | None, plain: Any) -> None:
    codec, budget = plain.codec, 16
    wait_ids = codec.encode_text("Wait")
    free = sampled(thinking(plain, budget), codec)
    found = sampled(thinking(plain, budget, waits=waits, minimum=minimum), codec)
    for done, short in zip(found, free, strict=True):
        thought, before = thought_of(done), thought_of(short)
        text = codec.decode(done.token_ids)
        inside = text.partition("</think>")[0]
        assert text.count("Wait") == inside.count("Wait") == thought.waits <= waits
        early = before.tokens < (minimum or budget) and not before.forced
        assert (thought.waits > 0) == early
        if early:
            assert done.token_ids[: before.tokens] == short.token_ids[: before.tokens], "the close is taken away"
            assert done.token_ids[before.tokens : before.tokens + len(wait_ids)] == wait_ids
        assert not (thought.waits < waits and thought.tokens < (minimum or budget)), "it may end early after the last one"
        assert thought.tokens <= budget, "all pieces together"
        places = [on for on, _ in zip(done.loss_mask or (), done.token_ids, strict=True)]
        put_in = thought.waits * len(wait_ids) + thought.forced * len(codec.encode_text(FORCED))
        assert places.count(False) == put_in and done.length == len(done.token_ids) - put_in
    assert any(thought_of(done).waits == waits for done in found)


def test_no_thought_at_all(plain: Any) -> None:
    for done in sampled(thinking(plain, 0), plain.codec):
        assert plain.codec.decode(done.token_ids).startswith(FORCED)
        assert thought_of(done) == Thought(0, True, 0)


def test_it_depends_on_the_key_alone(plain: Any) -> None:
    rules: dict[str, Any] = {"waits": 1}
    one, other = (sampled(thinking(plain, 6, **rules), plain.codec) for _ in range(2))
    assert one == other
    assert len({done.token_ids for done in one}) > SAMPLES
    greedy = sampled(thinking(plain, 6, **rules), plain.codec, temperature=0)
    assert all(len({done.token_ids for done in greedy[p * SAMPLES : (p + 1) * SAMPLES]}) == 1 for p in range(PROMPTS))


def test_engines_agree(sums_model: Path) -> None:
    native, other = (engine_of(kind, sums_model) for kind in ("native", "transformers"))
    mine, theirs = (sampled(thinking(one, 6, waits=1), one.codec) for one in (native, other))
    assert [done.token_ids for done in mine] == [done.token_ids for done in theirs]


def test_a_close_of_several_tokens(sums_model: Path) -> None:
    engine = engine_of("native", sums_model)
    close = "So I am done."
    thinker = thinking(engine, 9, close=close, forced=f" {close}\n")
    codec = engine.codec
    before, after = codec.encode_text("1+2=3"), codec.encode_text("\\boxed{3}")
    ids = codec.encode_text(close)
    assert len(ids) > 3
    assert thinker._closed((*before, *ids, *after)) == (len(before), len(before) + len(ids))
    assert thinker._closed((*before, *ids[:-1])) is None


def test_what_does_not_fit_is_refused(sums_model: Path) -> None:
    engine = engine_of("native", sums_model)
    thinker = ThinkingEngine(engine, engine.codec, ThinkingRules(500), engine.model.config.max_position_embeddings)
    with pytest.raises(UsageError, match=r"thinking_budgets: a prompt of \d+ tokens with 500 of thought.*512 positions; lower"):
        sampled(thinker, engine.codec)


def settings(output: Path, model: Path, **more: Any) -> EvalConfig:
    fields: dict[str, Any] = {
        "models": {"sums": str(model)},
        "output": output,
        "sources": [{"environment": "arithmetic", "options": {"digits": 1, "operations": "+"}}],
        "samples": 4,
        "prompts": 12,
        "prompts_at_a_time": 5,
        "max_new_tokens": 12,
        "workers": 0,
        "device": "cpu",
        "threads": 1,
        "thinking_budgets": [0, 2, 8],
        **more,
    }
    return EvalConfig(**fields)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, sums_model: Path) -> Path:
    folder = tmp_path_factory.mktemp("budgets")
    run_evaluation(settings(folder, sums_model))
    return folder


@pytest.mark.slow
def test_accuracy_by_budget_is_a_count_of_the_samples(first: Path) -> None:
    report = json.loads((first / "report.json").read_text())
    rows = report["budgets"]["sums"]["arithmetic"]
    assert [row["budget"] for row in rows] == [0, 2, 8]
    for row in rows:
        found = read_samples(first / f"samples-sums@{row['budget']}.jsonl")
        samples = [sample for one in found for sample in one.samples]
        assert len(samples) == 48
        right = sum(sample.score.status.value == "correct" for sample in samples)
        assert row["accuracy"]["value"] == pytest.approx(right / 48)
        assert row["accuracy"]["low"] <= right / 48 <= row["accuracy"]["high"]
        thoughts = [sample.thought for sample in samples]
        assert row["thinking_tokens"] == fmean(thought.tokens for thought in thoughts if thought)
        assert row["tokens"] == fmean(sample.tokens for sample in samples)
        assert row["forced"] == fmean(thought.forced for thought in thoughts if thought)
        assert report["models"][f"sums@{row['budget']}"]["arithmetic"]["figures"]["avg@4"] == row["accuracy"]
    assert rows[0]["forced"] == 1 and rows[0]["thinking_tokens"] == 0
    assert rows[2]["forced"] < rows[1]["forced"]
    assert rows[2]["accuracy"]["value"] > rows[0]["accuracy"]["value"], "its answers need the thought"
    page = (first / "report.md").read_text()
    table = list(takewhile(bool, page.partition("## sums: accuracy by thinking budget\n\n")[2].splitlines()))
    assert len(table) == 5 and table[3].startswith("| arithmetic | 2 | 0.")
    assert "sums@8 minus sums@0, on the same prompts: avg@4" in page


@pytest.mark.slow
def test_another_budget_leaves_the_samples_of_the_others(first: Path, tmp_path: Path, sums_model: Path) -> None:
    shutil.copytree(first, tmp_path / "more")
    before = {path.name: path.read_bytes() for path in first.glob("samples-*.jsonl")}
    run_evaluation(settings(tmp_path / "more", sums_model, thinking_budgets=[8, 4, 2]))
    after = {path.name: path.read_bytes() for path in (tmp_path / "more").glob("samples-*.jsonl")}
    assert after.keys() - before.keys() == {"samples-sums@4.jsonl"} and before.items() <= after.items()
    run_evaluation(settings(tmp_path / "again", sums_model, thinking_budgets=[4]))
    assert verdicts(tmp_path / "again/samples-sums@4.jsonl") == verdicts(tmp_path / "more/samples-sums@4.jsonl")
    with pytest.raises(UsageError, match="new folder"):
        run_evaluation(settings(tmp_path / "again", sums_model, thinking_budgets=[4], thinking_waits=1))


def verdicts(path: Path) -> list[Any]:
    return [[(s.text, s.tokens, s.thought, s.score.reward) for s in one.samples] for one in read_samples(path)]


@pytest.mark.slow
def test_the_command_line(tmp_path: Path, sums_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["eval", f"mine={sums_model}", "--output", str(tmp_path / "out"), "--env", "units", "--prompts", "3"]
    command += ["--max-new-tokens", "6", "--thinking-budget", "2", "--thinking-budget", "5", "--set", "thinking_waits=1"]
    assert cli.main([*command, "--set", "workers=0", "--set", "device=cpu"]) == 0
    assert "## mine: accuracy by thinking budget" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"thinking_budgets": [], "thinking_waits": 1}, "thinking_waits is about a thinking budget; set thinking_budgets"),
        ({"thinking_minimum": 1}, "thinking_minimum is about thoughts that are taken up again; set thinking_waits"),
        ({"thinking_budgets": [4, 4]}, "names a budget twice"),
        ({"thinking_budgets": [4, 9], "thinking_waits": 1, "thinking_minimum": 5}, "above the smallest of thinking_budgets"),
        ({"thinking_forced": "Answer:"}, "thinking_forced does not hold thinking_close"),
        ({"thinking_waits": 1, "thinking_wait": "</think>"}, "thinking_wait holds thinking_close"),
        ({"thinking_budgets": [-1]}, "greater than or equal to 0"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        settings(tmp_path, tmp_path, **fields)
