"""The environment as its users see it, where there is no Lean: what gets a verdict all the same, and what the rest is told."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from verigym.envs import Completion, EnvironmentFailure, UsageError, load
from verigym.envs.contract.schema import Status
from verigym.envs.lean import environment as module
from verigym.envs.lean import toolchain

PAGE = Path(__file__).resolve().parents[3] / "docs/lean.md"


@pytest.fixture(autouse=True)
def no_lean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LEAN4_BIN", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    toolchain._resolved.cache_clear()
    module._open.cache_clear()


def fenced(proof: str) -> str:
    return f"Here it is:\n```lean4\n{proof}\n```"


def test_without_lean_a_proof_gets_no_score_and_says_what_to_install() -> None:
    env = load("lean")
    for prompt in env.examples():
        score = env.score(prompt, env.gold(prompt))
        assert (score.status, score.reward) == (Status.ERROR, None)
        assert score.error.kind == "unavailable" and "elan-init.sh" in score.reason and "LEAN4_BIN" in score.reason
    with pytest.raises(EnvironmentFailure, match="elan-init.sh"):
        env.check()
    env.prepare()  # raises nothing: each verdict says so


@pytest.mark.parametrize(
    ("completion", "status", "why"),
    [
        ("", Status.NO_ANSWER, "no fenced block"),
        ("It is obvious.", Status.NO_ANSWER, "no fenced block"),
        (fenced(""), Status.NO_ANSWER, ""),
        (Completion(text="Let me", finish_reason="length"), Status.TRUNCATED, "cut off by the token limit"),
        (fenced("by native_decide"), Status.INCORRECT, "format: token:native_decide"),
        (fenced("rfl\naxiom cheat : False"), Status.INCORRECT, "format: command:axiom"),
        (fenced("rfl\nend Hidden"), Status.INCORRECT, "format: "),
        (fenced("by\n  exact \0"), Status.INCORRECT, "format: the submission holds a NUL"),
        (fenced("-- " + "x" * 300_000 + "\nrfl"), Status.LIMIT, "input: "),
    ],
    ids=["empty", "prose", "empty fence", "cut off", "banned", "command", "end", "NUL", "long"],
)
def test_what_no_lean_is_needed_for_gets_its_verdict(completion: Any, status: Status, why: str) -> None:
    env = load("lean")
    score = env.score(env.examples()[0], completion)
    assert (score.status, score.reward) == (status, 0.0)
    assert score.reason.startswith(why)


def test_words_can_be_banned_and_allowed() -> None:
    prompt = load("lean").examples()[0]
    assert load("lean", ban=["omega"]).score(prompt, fenced("by omega")).reason == "format: token:omega"
    assert load("lean").score(prompt, fenced("by omega")).status is Status.ERROR
    assert load("lean", allow=["native_decide"]).score(prompt, fenced("by native_decide")).status is Status.ERROR
    assert load("lean", guard=False).score(prompt, fenced("rfl\naxiom cheat : False")).status is Status.ERROR
    assert load("lean", unfenced=True).score(prompt, "by omega").status is Status.ERROR
    with pytest.raises(UsageError, match="'x' is in ban and in allow"):
        load("lean", ban=["x"], allow=["x"])
    with pytest.raises(UsageError, match="backend_options are for a screen"):
        load("lean", backend_options={"program": "repl"})


def test_the_option_for_a_slow_lean_reaches_both_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "toolchain_of", lambda options: toolchain.Toolchain("/bin/sh", "4.28.0", "", key="key"))
    box = module._Opened(load("lean", time_factor=4).options).checker.box
    job = box.job((), {}, load("lean", time_factor=4).options.judge_limits)
    assert (job.limits.wall_s, job.limits.cpu_s) == (480.0, 480.0)
    with pytest.raises(UsageError, match="time_factor"):
        load("lean", time_factor=0.5)


def test_the_reference_is_typed() -> None:
    env = load("lean")
    prompt = env.prompt("Prove it.", name="target", statement="theorem target : 1 + 1 = 2", header="open Nat", mode="slot")
    assert env.load_prompt(prompt.model_dump(mode="json")) == prompt
    assert env.gold(prompt) is None
    for fields in ({"statement": "theorem other : 1 = 1"}, {"statement": "theorem target : 1 = 1 := rfl"}, {"statment": "x"}):
        with pytest.raises(UsageError, match="reference of 'lean'"):
            env.prompt("Prove it.", name="target", **fields)


def test_canaries_are_false_statements_of_their_own() -> None:
    env = load("lean", canary_header="import Mathlib")
    found = [env.canary(0, index) for index in range(50)]
    assert found == [env.canary(0, index) for index in range(50)] and len({prompt.key for prompt in found}) >= 45
    assert env.canary(1, 0) != found[0]
    for prompt in found:
        assert prompt.metadata["canary"] == "reject" and env.gold(prompt) is None
        reference = prompt.references["lean"]
        assert reference.header == "import Mathlib" and reference.statement in prompt.text  # type: ignore[attr-defined]


def test_it_is_registered_picklable_and_without_free_verdicts() -> None:
    env = pickle.loads(pickle.dumps(load("lean", parallel=2)))  # noqa: S301
    assert env.name == "lean" and env.options.parallel == 2
    assert "free" not in set(env.expected_verdicts.model_dump().values()) and env.reward_range == (0.0, 1.0)


@pytest.mark.parametrize("kind", ["options_type", "reference_type"])
def test_the_page_has_every_option(kind: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, info in getattr(module.LeanEnvironment, kind).model_fields.items():
        words = " ".join((info.description or "").split()).replace("|", "\\|")
        rows = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert any(line.endswith(f"| {words} |") for line in rows), name
