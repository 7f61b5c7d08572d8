"""A model behind a chat-completions server: samples and files as of a folder, and no reward where the server failed."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from chat_server import Handler, Request, Step, drop, half, hang, raw, say, serving, status
from patience import HANG_S

from verigym import cli
from verigym.envs import Message, Prompt, Status, UsageError
from verigym.trainer.evaluation import run as run_module
from verigym.trainer.evaluation.config import EvalConfig
from verigym.trainer.evaluation.endpoint_samples import sample_endpoint
from verigym.trainer.evaluation.run import run_evaluation
from verigym.trainer.evaluation.tasks import held_out
from verigym.trainer.models.codec import Codec
from verigym.trainer.monitoring.progress import Interrupted
from verigym.trainer.stages.sample_log import PromptSamples, Sample, read_samples

SUMS = {"environment": "arithmetic", "options": {"digits": 1, "operations": "+"}}
TOOLS = {**SUMS, "name": "tools", "tools": {"calculator": {}}}

MODULE = '''
from pathlib import Path
from verigym.envs import BaseEnvironment, EnvironmentFailure, Options, Reference, Score

HERE = Path(__file__).parent

class Number(Reference):
    number: int

class Flaky(BaseEnvironment[Number, Options]):
    """Fails for the tasks that the file `down` lists."""

    name, version, reference_type = "flaky", "1", Number

    def prompt_at(self, split, seed, index):
        return self.prompt(f"{index}+0=", number=index)

    def judge(self, prompt, reference, completion):
        if str(reference.number) in (HERE / "down").read_text().split():
            raise EnvironmentFailure("backend", "the calculator is down")
        return Score.incorrect(answer=completion.text[:5])

    def gold(self, prompt):
        return str(self.reference(prompt).number)

    def examples(self):
        return [self.prompt("1+0=", number=1)]

class Longest(Flaky):
    """The share of the others that a completion is longer than."""

    name, grades_groups = "longest", True

    def score_group(self, prompt, completions):
        with open(HERE / "groups", "a") as log:
            log.write(f"{len(completions)} ")
        sizes = [len(one.text) for one in completions]
        return [Score.partial(sum(size > other for other in sizes) / (len(sizes) - 1)) for size in sizes]
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "endpoint_envs.py").write_text(MODULE)
    (tmp_path / "down").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "endpoint_envs", raising=False)
    return tmp_path


def settings(output: Path, url: str, samples: int = 1, source: Any = SUMS, **more: Any) -> EvalConfig:
    names = {"extra_body", "tries", "timeout_s", "backoff_s", "concurrency", "api_key_env"}
    model = {"base_url": url, "model": "tiny", "backoff_s": 0.001, "concurrency": 1, "tries": 3}
    model |= {name: more.pop(name) for name in names & set(more)}
    fields = {"prompts": 4, "max_new_tokens": 32, "workers": 0, **more}
    return EvalConfig(models={"m": model}, output=output, sources=[source], samples=samples, **fields)


def ask(config: EvalConfig) -> list[PromptSamples]:
    """Return the samples, without the report, whose curves take longer to draw than all the rest."""
    config.output.mkdir(exist_ok=True)
    sources = [held_out(source, config.prompts) for source in config.sources]
    model: Any = config.models["m"]
    return sample_endpoint(config, "m", model, sources, run_module._made_with(config, sources))


def samples_of(found: list[PromptSamples]) -> list[Sample]:
    return [sample for one in found for sample in one.samples]


def texts(folder: Path) -> list[list[str]]:
    return [[sample.text for sample in one.samples] for one in read_samples(folder / "samples-m.jsonl")]


def question(request: Request) -> str:
    return str(request["messages"][0]["content"])


def solve(request: Request) -> str:
    numbers = re.findall(r"\d+", question(request))
    return f"The sum is \\boxed{{{sum(map(int, numbers))}}}."


def signalled(number: int, then: Step) -> Step:
    def step(handler: Handler, request: Request) -> None:
        os.kill(os.getpid(), number)
        then(handler, request)

    return step


@pytest.mark.slow
def test_an_evaluation_has_the_tables_and_files_of_a_folder_s_and_the_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SERVER_KEY", "sk-not-to-be-seen")
    out = tmp_path / "out"
    with serving(say(solve, usage=(50, 7))) as server:
        command = ["eval", "--endpoint", server.url, "--model", "served=tiny", "--api-key-env", "SERVER_KEY", "--env", "units"]
        command += ["--env", 'arithmetic={"digits": 1, "operations": "+"}', "--prompts", "9", "--output", str(out)]
        assert cli.main([*command, "--set", "workers=0"]) == 0
        shown = capsys.readouterr()
        assert set(server.keys) == {"Bearer sk-not-to-be-seen"} and len(server.seen) == 18
        first = server.seen[-1]
        assert cli.main([*command, "--set", "workers=0"]) == 0
        assert len(server.seen) == 18, "nothing is asked twice"
    found = read_samples(out / "samples-served.jsonl")
    assert first["messages"] in [[message.model_dump() for message in one.messages] for one in found]
    assert {key: first[key] for key in first if key != "messages"} == {"model": "tiny", "max_tokens": 512, "temperature": 0.0}
    report = json.loads((out / "report.json").read_text())
    assert report["models"]["served"]["arithmetic"]["figures"]["avg@1"]["value"] == 1
    assert report["models"]["served"]["units"]["figures"]["avg@1"]["value"] < 1
    assert report["usage"]["served"] == {
        "model": "tiny",
        "base_url": server.url,
        "prompt_tokens": 18 * 50,
        "completion_tokens": 18 * 7,
    }
    line = f"served: 900 prompt tokens and 126 completion tokens, as {server.url} counted them for 'tiny'"
    assert line in (out / "report.md").read_text() and line in shown.out
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"report.md", "report.json", "curves.png", "samples-served.jsonl", "run.json"}
    assert not any(b"not-to-be-seen" in path.read_bytes() for path in files)
    assert "not-to-be-seen" not in shown.out + shown.err


@pytest.mark.slow
def test_greedy_it_equals_the_evaluation_of_the_folder(tmp_path: Path, sums_model: Path) -> None:
    """The server renders the chat template and samples with the same weights."""
    from verigym.trainer.engines.native.engine import NativeEngine
    from verigym.trainer.models.loading import load_model, pick_device

    sources = [{**source, "template": "chat"} for source in (SUMS, {"environment": "units"})]
    fields: dict[str, Any] = {
        "sources": sources,
        "prompts": 12,
        "max_new_tokens": 24,
        "workers": 0,
        "device": "cpu",
        "threads": 1,
    }
    alone = EvalConfig(models={"m": str(sums_model)}, output=tmp_path, **fields).as_run(str(sums_model))
    model, tokenizer = load_model(str(sums_model), pick_device("cpu"))
    codec = Codec(tokenizer, model.generation_config)
    engine = NativeEngine.from_config(alone, model, codec)
    engine.sync()

    def serve(handler: Handler, request: Request) -> None:
        messages = tuple(Message(**message) for message in request["messages"])
        ids = codec.encode(Prompt(messages=messages, environment="any", references={}))
        sampling: Any = {"max_new_tokens": request["max_tokens"], "temperature": request["temperature"]}
        [[done]] = engine.generate([ids], [[("any",)]], on_finished=lambda *_: None, **sampling)
        say(codec.decode(done.token_ids), (len(ids), done.length), done.finish_reason)(handler, request)

    with serving(serve) as server:
        models: Any = {"local": str(sums_model), "served": {"base_url": server.url, "model": "tiny", "concurrency": 1}}
        run_evaluation(EvalConfig(models=models, output=tmp_path / "out", **fields))
    mine, theirs = (read_samples(tmp_path / f"out/samples-{name}.jsonl") for name in models)
    rows = [[(s.text, s.tokens, s.finish_reason, s.score.status) for s in samples_of(found)] for found in (mine, theirs)]
    assert rows[0] == rows[1] and {row[3] for row in rows[0]} >= {Status.CORRECT, Status.TRUNCATED}
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["models"]["local"] == report["models"]["served"] and report["compared"]["served"]["gain"]["value"] == 0
    assert list(report["usage"]) == ["served"]


def test_each_sample_has_a_seed_of_its_own_and_more_samples_keep_the_first(tmp_path: Path) -> None:
    with serving(say(solve)) as server:
        ask(settings(tmp_path / "two", server.url, samples=2))
        seeds = [request["seed"] for request in server.seen]
        assert len(set(seeds)) == 8 and all(0 <= seed < 2**31 for seed in seeds)
        assert all(request["top_p"] == 1 and request["temperature"] == 1 for request in server.seen)
        found = ask(settings(tmp_path / "two", server.url, samples=4))
        assert len(server.seen) == 16 and [len(one.samples) for one in found] == [4] * 4
        more = [request["seed"] for request in server.seen]
        assert len(set(more)) == 16
        ask(settings(tmp_path / "four", server.url, samples=4))
        assert sorted(request["seed"] for request in server.seen[16:]) == sorted(more), "of the samples, not of the call"
        assert texts(tmp_path / "two") == texts(tmp_path / "four")
        with pytest.raises(UsageError, match="max_new_tokens was 32 and is now 33"):
            ask(settings(tmp_path / "two", server.url, samples=4, max_new_tokens=33))


TROUBLES: dict[str, Step] = {
    "429": status(429, retry_after="0"),
    "500": status(500),
    "503 in HTML": status(503, b"<html>busy</html>"),
    "dropped": drop,
    "dropped half way": half,
    "no HTTP body": raw(b""),
    "no usage": say("a text", usage=None),
    "aborted": say("half a te", finish="abort"),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_a_request_that_fails_is_sent_again(name: str, tmp_path: Path) -> None:
    with serving(say(solve), [TROUBLES[name]] * 2) as server:
        found = ask(settings(tmp_path / "out", server.url))
        assert len(server.seen) == 4 + 2 and server.seen[0] == server.seen[1] == server.seen[2]
    assert all(sample.correct for sample in samples_of(found)) and len(found) == 4


@pytest.mark.parametrize("name", TROUBLES)
def test_a_server_that_goes_away_stops_the_evaluation_which_goes_on_later(name: str, tmp_path: Path) -> None:
    with serving(TROUBLES[name], [say(solve)] * 5) as server:
        config = settings(tmp_path / "out", server.url, samples=2)
        with pytest.raises(
            Interrupted, match=r"eval m: stopped after \d of 4 prompts, \d completions of others are kept: "
        ) as gone:
            ask(config)
        assert gone.value.exit_code == 1 and f"model 'tiny' at {server.url}" in str(gone.value)
        kept = read_samples(tmp_path / "out/samples-m.jsonl")
        assert [bool(sample.text) for sample in samples_of(kept)] == [True] * 5 + [False]
        assert all(sample.score.reward in (1.0, None) for sample in samples_of(kept)), "the fifth may wait for its verdict"
        failed = len(server.seen)
        server.rest = say(solve)
        found = ask(config)
        assert len(server.seen) - failed == 3, "what had come is not asked for again"
    assert [len(one.samples) for one in found] == [2] * 4 and all(sample.correct for sample in samples_of(found))
    assert not list((tmp_path / "out").glob("*.retried"))


def test_a_wait_that_the_server_asks_for_is_kept_up_to_the_limit(tmp_path: Path) -> None:
    with serving(say(solve), [status(429, retry_after="1")]) as server:
        begun = time.monotonic()
        ask(settings(tmp_path / "out", server.url, prompts=1))
        assert time.monotonic() - begun >= 1
    with (
        serving(status(429, retry_after="3600")) as server,
        pytest.raises(Interrupted, match=r"HTTP 429: .*it asks to wait 3600 s \(Retry-After\), more than timeout_s \(600\)"),
    ):
        ask(settings(tmp_path / "long", server.url))


def only_for(word: str, step: Step) -> Step:
    """Do this to the requests that contain `word`."""
    return lambda handler, request: (step if word in question(request) else say(solve))(handler, request)


@pytest.mark.parametrize(
    ("step", "cause"),
    [
        (
            status(400, {"error": {"message": "the context is 64 tokens"}}),
            "refuses this request: HTTP 400.*context is 64 tokens",
        ),
        (say("half", finish="content_filter"), "refuses this request: the server's content filter"),
        (status(500), r"answers other requests, and this one not \(3 tries\): HTTP 500"),
    ],
)
def test_a_request_that_alone_is_refused_has_no_verdict_and_is_sent_again_by_the_next_call(
    step: Step, cause: str, tmp_path: Path
) -> None:
    with serving(say(solve)) as server:
        config = settings(tmp_path / "out", server.url)
        prompts = [prompt.text for source in config.sources for prompt in held_out(source, 4).held_out]
        server.rest = only_for(prompts[1], step)
        found = samples_of(ask(config))
        assert [sample.score.reward for sample in found] == [1.0, None, 1.0, 1.0]
        assert found[1].score.error is not None and re.search(cause, found[1].score.error.message)
        asked = len(server.seen)
        server.rest = say(solve)
        again = samples_of(ask(config))
        assert len(server.seen) == asked + 1 and all(sample.correct for sample in again)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (status(401), "HTTP 401: .*; check api_key_env"),
        (status(404), "HTTP 404: .*; check base_url and model"),
        (status(400, {"error": {"message": "top_k is unknown"}}), "refuses every request: HTTP 400: .*top_k is unknown"),
    ],
)
def test_settings_that_the_server_refuses_are_a_mistake_in_the_call(step: Step, message: str, tmp_path: Path) -> None:
    with serving(step) as server, pytest.raises(UsageError, match=f"model 'tiny' at {server.url}:? {message}"):
        ask(settings(tmp_path / "out", server.url))
    assert len(read_samples(tmp_path / "out/samples-m.jsonl")) == 0


def test_no_server_and_a_model_that_it_lacks_are_said_before_anything_is_asked(tmp_path: Path) -> None:
    with serving(say(solve)) as server:
        other = settings(tmp_path / "out", server.url)
        model: Any = other.models["m"]
        missing = other.model_copy(update={"models": {"m": model.model_copy(update={"model": "tin"})}})
        with pytest.raises(UsageError, match="has no model 'tin'; it has tiny"):
            ask(missing)
        assert server.seen == []
    with pytest.raises(UsageError, match=f"no server answers at {server.url}"):
        ask(settings(tmp_path / "gone", server.url))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_keeps_what_has_come_and_does_not_wait_for_the_server(number: int, tmp_path: Path) -> None:
    plan = [say(solve)] * 3 + [signalled(number, hang)]
    with serving(say(solve), plan) as server:
        config = settings(tmp_path / "out", server.url, samples=2, timeout_s=HANG_S)
        with pytest.raises(Interrupted, match=r"stopped after \d of 4 prompts, \d completions of others are kept") as stop:
            ask(config)
        assert stop.value.exit_code == 128 + number
        found = ask(config)
        assert len(server.seen) == 8 + 1, "the request that was under way is sent again"
    assert all(sample.correct for sample in samples_of(found)) and len(samples_of(found)) == 8


def test_requests_are_sent_side_by_side(tmp_path: Path) -> None:
    together = threading.Barrier(3)

    def wait(handler: Handler, request: Request) -> None:
        together.wait(HANG_S)
        say(solve)(handler, request)

    with serving(wait) as server:
        found = ask(settings(tmp_path / "out", server.url, prompts=6, concurrency=3))
        assert server.most == 3
    assert len(found) == 6 and [one.number for one in found] == list(range(6))
    assert [one.prompt_key for one in read_samples(tmp_path / "out/samples-m.jsonl")] == [one.prompt_key for one in found]


def test_verdicts_that_the_grader_owes_are_asked_of_the_grader_alone(module: Path) -> None:
    (module / "down").write_text("1 3")
    with serving(say("five!")) as server:
        config = settings(module / "out", server.url, source={"environment": "endpoint_envs:Flaky"})
        assert [sample.score.scored for sample in samples_of(ask(config))] == [True, False, True, False]
        (module / "down").write_text("3")
        assert [sample.score.scored for sample in samples_of(ask(config))] == [True, True, True, False]
        assert len(server.seen) == 4


def test_a_group_is_graded_when_all_of_it_has_come(module: Path) -> None:
    source = {"environment": "endpoint_envs:Longest"}
    lengths = iter(range(1, 100))
    with serving(say(lambda _: "x" * next(lengths)), [say("x" * 9), status(400), say("OK")]) as server:
        config = settings(module / "out", server.url, samples=3, source=source, prompts=2)
        found = ask(config)
        assert [[sample.score.reward for sample in one.samples] for one in found] == [[None] * 3, [0, 0.5, 1]]
        assert (module / "groups").read_text() == "3 "
        again = ask(config)
        assert len(server.seen) == 7 + 1, "only the sample that was refused, and the control before"
    assert [[sample.score.reward for sample in one.samples] for one in again][1] == [0, 0.5, 1]
    assert sorted(sample.score.reward or 0 for sample in again[0].samples) == [0, 0.5, 1]


def use_calculator(handler: Handler, request: Request) -> None:
    """Call the calculator as a server does that reads calls out of the model's text; then answer with what it said."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        say(f"It is \\boxed{{{last['content']}}}.", usage=(90, 9))(handler, request)
        return
    call = {"name": "calculator", "arguments": json.dumps({"expression": question(request).partition("=")[0].split()[-1]})}
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c7", "type": "function", "function": call}]}
    choice = {"message": message, "finish_reason": "tool_calls"}
    handler.answer(200, {"choices": [choice], "usage": {"prompt_tokens": 70, "completion_tokens": 5}})


def test_episodes_with_tools(tmp_path: Path) -> None:
    with serving(use_calculator) as server:
        found = ask(settings(tmp_path / "out", server.url, source={**TOOLS, "template": "chat"}, prompts=2))
        first, second = server.seen[:2]
    assert first["tools"][0]["function"]["name"] == "calculator"
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    assert second["messages"][1]["tool_calls"][0]["id"] == second["messages"][2]["tool_call_id"] == "c7"
    assert first["max_tokens"] == 32 and second["max_tokens"] == 32 - 5
    for one in found:
        (sample,) = one.samples
        assert sample.correct and sample.tokens == 14 and one.metadata["prompt_tokens"] == [160]
        assert sample.episode is not None and [turn.role for turn in sample.episode.turns] == ["assistant", "tool", "assistant"]
        assert sample.episode.turns[0].calls[0].name == "calculator" and sample.episode.outcome is not None


def test_calls_that_the_server_leaves_in_the_text_are_read_there(tmp_path: Path) -> None:
    written = '<tool_call>{"name": "calculator", "arguments": {"expression": "1+1"}}</tool_call>'
    with serving(say("\\boxed{2}"), [say(written)]) as server:
        (one,) = ask(settings(tmp_path / "out", server.url, source=TOOLS, prompts=1))
        said, reply = server.seen[1]["messages"][-2:]
    assert said == {"role": "assistant", "content": written} and (reply["role"], reply["content"]) == ("tool", "2")
    assert one.samples[0].episode is not None and len(one.samples[0].episode.turns) == 3


def test_games_are_played_to_the_end_or_to_a_limit(tmp_path: Path) -> None:
    game = {"environment": "number_guessing", "options": {"numbers": 7, "guesses": 3}}

    def halve(request: Request) -> str:
        low, high = sorted(map(int, re.findall(r"\d{4,}", question(request))))[:2]
        for said, told in zip(request["messages"][1::2], request["messages"][2::2], strict=False):
            guess = int(re.findall(r"\d{4,}", said["content"])[0])
            low, high = (guess, high) if "Higher" in told["content"] else (low, guess)
        return f"guess: {(low + high) // 2}"

    with serving(say(halve)) as server:
        found = samples_of(ask(settings(tmp_path / "out", server.url, source=game)))
        assert all(sample.correct for sample in found)
        (cut,) = samples_of(ask(settings(tmp_path / "cut", server.url, source=game, prompts=1, max_turns=1)))
        assert cut.episode is not None and cut.score.scored and cut.finish_reason == "turns"
        server.rest = say(halve, usage=(100, 20))
        (full,) = samples_of(ask(settings(tmp_path / "full", server.url, source=game, prompts=1, max_context_tokens=110)))
        assert full.finish_reason == "context"
        server.plan = [say("half a gue", finish="length")]
        (half_a_turn,) = samples_of(ask(settings(tmp_path / "half", server.url, source=game, prompts=1)))
        assert half_a_turn.finish_reason == "length" and half_a_turn.score.scored
        server.plan = [say("no"), status(400), say("OK")]
        (refused,) = samples_of(ask(settings(tmp_path / "refused", server.url, source=game, prompts=1)))
        assert refused.to_play_again and not refused.score.scored


def test_thinking_that_the_server_takes_out_is_put_back(tmp_path: Path) -> None:
    def think(handler: Handler, request: Request) -> None:
        message: Any = {"role": "assistant", "content": solve(request), "reasoning_content": "Let me add.\n"}
        if "temperature" in request:
            message = {"role": "assistant", "content": None, "reasoning_content": "Let me"}
        choice = {"message": message, "finish_reason": "length" if "temperature" in request else "stop"}
        handler.answer(200, {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})

    with serving(think) as server:
        (whole,) = samples_of(ask(settings(tmp_path / "whole", server.url, prompts=1, extra_body={"temperature": None})))
        (cut,) = samples_of(ask(settings(tmp_path / "cut", server.url, prompts=1)))
    assert whole.correct and whole.text.startswith("<think>\nLet me add.\n</think>\n\nThe sum is")
    assert cut.text == "<think>\nLet me" and cut.score.status is Status.TRUNCATED


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"extra_body": {"temperature": 0.5}}, "extra_body sets temperature; set `temperature` of the evaluation"),
        ({"extra_body": {"max_tokens": 5}}, "extra_body sets max_tokens; set `max_new_tokens` of the evaluation"),
        ({"extra_body": {"tools": []}}, "extra_body holds 'tools'"),
        ({"device": "cpu"}, "device is about models that are loaded here, and all of these are behind an endpoint"),
        ({"max_prompt_tokens": 9}, "max_prompt_tokens is about models that are loaded here"),
        ({"thinking_budgets": [4]}, "thinking_budgets close a thought in the middle"),
        ({"api_key_env": "sk-12"}, "api_key_env takes the name of an environment variable"),
    ],
)
def test_settings_without_effect_are_refused(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        settings(tmp_path, "http://localhost:1/v1", **more)


def test_a_template_for_models_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    source = {**SUMS, "template": "base"}
    with pytest.raises(UsageError, match="its template is for models without a chat template, and an endpoint takes chat"):
        ask(settings(tmp_path / "out", "http://localhost:1/v1", source=source))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a model's folder, or a server with --endpoint URL --model NAME"),
        (["--model", "m"], "--model is about a server: give its address with --endpoint URL"),
        (["m", "--api-key-env", "KEY"], "--api-key-env is about a server"),
        (["--endpoint", "http://localhost:1/v1"], "--endpoint wants the name of a model there: --model NAME"),
        (["a/m", "--endpoint", "http://localhost:1/v1", "--model", "b/m"], "two models are called 'm'"),
        (["--endpoint", "localhost:1", "--model", "m"], "base_url is not an http or https URL"),
        (
            ["--endpoint", 'http://localhost:1/v1={"trys": 1}', "--model", "m"],
            "models.m: unknown field 'trys'; did you mean 'tries'?",
        ),
        (["--endpoint", "http://localhost:1/v1", "--model", "m"], "no server answers at http://localhost:1/v1"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", *arguments, "--env", "units", "--output", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
