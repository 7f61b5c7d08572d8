"""The completions with which an environment is tested, and a function that has them judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from verigym.envs.conformance.client import EnvironmentClient, NoReply
from verigym.envs.conformance.hacks import garbage, hacks, malformed
from verigym.envs.contract.schema import Completion, Prompt, Score

Group = Literal["gold", "empty", "echo", "garbage", "hacks"]
Outcome = Score | NoReply
"""A score, or why there is none."""


@dataclass(frozen=True)
class Case:
    """One completion for one task."""

    group: Group
    name: str
    prompt: Prompt
    completion: Completion
    stress: bool = False
    """Whether judging may take long. If so, the case is judged only twice: once in each of the check's two processes."""


def cases_of(prompt: Prompt, gold: str | None, *, stress: bool) -> Iterator[Case]:
    """Yield the test cases for one task.

    Args:
        prompt: the task.
        gold: a completion that must score the maximum, or None if there is none.
        stress: whether to add completions that may take long to judge.
    """

    def case(group: Group, name: str, text: str, finish_reason: Literal["stop", "length"] = "stop") -> Case:
        return Case(group, name, prompt, Completion(text=text, finish_reason=finish_reason))

    if gold is not None:
        yield case("gold", "gold", gold)
    yield case("empty", "empty", "")
    yield case("garbage", "cut off before an answer", "Let me think about", "length")
    yield case("echo", "echo of the prompt", prompt.text)
    yield case("echo", "echo of the last message", prompt.messages[-1].content)
    yield from (case("garbage", f"garbage: {name}", text) for name, text in garbage(prompt))
    yield from (case("hacks", f"hack: {name}", text) for name, text in hacks(prompt, gold))
    if stress and gold is not None:
        for name, text in malformed(gold):
            yield Case("hacks", f"monster: {name}", prompt, Completion(text=text), stress=True)


def judge_cases(client: EnvironmentClient, cases: Sequence[Case]) -> list[Outcome]:
    """Have each case judged separately, and return the outcomes.

    If a completion hangs or crashes its process, later cases with the same name are not judged.
    """
    deadly: dict[str, NoReply] = {}
    outcomes: list[Outcome] = []
    for case in cases:
        if case.name in deadly:
            outcomes.append(NoReply(deadly[case.name].reason, "not tried"))
            continue
        (outcome,) = client.judge([(case.prompt, case.completion)])
        if isinstance(outcome, NoReply) and outcome.kind == "died":
            deadly[case.name] = outcome
        outcomes.append(outcome)
    return outcomes
