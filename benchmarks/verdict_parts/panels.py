"""How each file of tests/cases is judged: the same calls as in the tests of that file."""

from __future__ import annotations

import functools
import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "tests", ROOT / "tests/support", ROOT / "tests/envs/support"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from mathgen.show import show  # noqa: E402

import verigym  # noqa: E402
from verigym.envs import Completion, Score  # noqa: E402
from verigym.envs.code.output import difference  # noqa: E402
from verigym.envs.extraction.fences import find_program  # noqa: E402
from verigym.envs.extraction.methods import extract, strip_thinking  # noqa: E402
from verigym.envs.judge.replies import Garbage, form_of  # noqa: E402
from verigym.envs.lean.completion import Refused  # noqa: E402
from verigym.envs.lean.guard import file_refusal, refusal  # noqa: E402
from verigym.envs.math.reading.parse import ParseError, parse  # noqa: E402

Case = dict[str, Any]
Verdict = dict[str, Any]
Verdicts = Iterator[tuple[str, Verdict]]  # each with the name of the variant, where a row is judged in more than one way
Reader = Callable[[Case], Verdicts]
CASES = ROOT / "tests/cases"


class Lacking(Exception):
    """What a row needs and this machine has not."""


def stable_fields(score: Score) -> Verdict:
    """Return a verdict without what differs between two runs: the time, and the grader's id."""
    fields = score.model_dump(mode="json", include={"reward", "status", "answer", "reason", "components", "error"})
    if score.steps is not None:
        fields["steps"] = [step.model_dump(mode="json") for step in score.steps]
    return fields


@functools.lru_cache(maxsize=512)
def _environment(name: str, options: str) -> Any:
    return verigym.load(name, **json.loads(options))


def environment(name: str, /, **options: Any) -> Any:
    """Return an environment, the same one for the same options: its worker processes are started once."""
    return _environment(name, json.dumps(options, sort_keys=True))


def _completion(case: Case) -> Completion:
    return Completion(text=case["completion"], finish_reason=case.get("finish_reason", "stop"))


def _rest(case: Case, *own: str) -> dict[str, Any]:
    return {name: value for name, value in case.items() if name not in own}


def _math(case: Case) -> Verdicts:
    own = ("section", "completion", "gold", "expected", "why", "question", "finish_reason")
    env = environment("math", **_rest(case, *own))
    prompt = env.prompt(case.get("question", "What is it? Put it in \\boxed{}."), answer=case["gold"])
    yield "", stable_fields(env.score(prompt, _completion(case)))


def _boxed(case: Case, **options: Any) -> Verdict:
    env = environment("math", **options)
    prompt = env.prompt(case.get("question", "What is it?"), answer=case["gold"])
    return stable_fields(env.score(prompt, rf"\boxed{{{case['answer']}}}"))


def _math_guards(case: Case) -> Verdicts:
    yield "guarded", _boxed(case)
    yield "accepting", _boxed(case, echo="accept", unworked="accept")


def _math_pairs(case: Case) -> Verdicts:
    for string_tier in (True, False):
        yield f"string_tier={string_tier}", _boxed(case, string_tier=string_tier, **case.get("options", {}))


def _math_parse(case: Case) -> Verdicts:
    try:
        yield "", {"tree": show(parse(case["text"]))}
    except ParseError as error:
        yield "", {"error": str(error)}


def _extract(case: Case) -> Verdicts:
    body = strip_thinking(case["text"]) if case.get("thinking") else case["text"]
    found = None if body is None else extract(body, (case["method"],))
    yield "", {"found": repr(found)}


def _format(case: Case) -> Verdicts:
    env = environment("format", **_rest(case, "completion", "expected", "why", "rule", "finish_reason"))
    yield "", stable_fields(env.score(env.prompt("q"), _completion(case)))


def _language(case: Case) -> Verdicts:
    env = environment("language", scope=case["scope"])
    yield "", stable_fields(env.score(env.prompt(case["prompt"], language=case["language"]), case["completion"]))


def _match(case: Case) -> Verdicts:
    env = environment("match")
    yield "", stable_fields(env.score(env.prompt("q", **case["reference"]), _completion(case)))


def _gym(case: Case) -> Verdicts:
    env = environment("reasoning_gym", task=case["task"])
    yield "", stable_fields(env.score(env.prompt("q", task=case["task"], answer=case["answer"]), case["completion"]))


def _puzzles(case: Case) -> Verdicts:
    env = environment(case["environment"], **case.get("options", {}))
    yield "", stable_fields(env.score(env.prompt("q", **case["reference"]), case["completion"]))


def _program_of_thought(case: Case) -> Verdicts:
    env = environment("program_of_thought", **case.get("options", {}))
    completion = Completion(text=case["completion"], finish_reason=case.get("finish_reason", "stop"))
    yield "", stable_fields(env.score(env.prompt(case["question"], answer=case["gold"]), completion))


def _shaping(case: Case) -> Verdicts:
    env = environment(case["environment"], **case["options"])
    tokens = None if case["tokens"] is None else (7,) * case["tokens"]
    completion = Completion(text=case["completion"], token_ids=tokens)
    yield "", stable_fields(env.score(env.prompt("q", **case["reference"]), completion))


def _process(case: Case) -> Verdicts:
    env = environment("process", **_rest(case, "completion", "expected", "why", "reward", "rewards", "finish_reason"))
    yield "", stable_fields(env.score(env.prompt("Tom has 3 boxes of 4 pens and gets 5 more."), _completion(case)))


def _constraints(case: Case) -> Verdicts:
    for package in ("py3langid", "emoji", "syllapy"):
        if importlib.util.find_spec(package) is None:
            raise Lacking(f"the package {package}, of the extra [constraints]")
    env = environment("constraints", mode=case.get("mode", "strict"), strict_echo=False)
    prompt = env.prompt("Do as you are asked.", instruction_id_list=[case["id"]], kwargs=[case["kwargs"]])
    yield "", stable_fields(env.score(prompt, case["text"]))


def _fences(case: Case) -> Verdicts:
    found = find_program(case["text"], case.get("language", "python"), case.get("method", "fenced"))
    yield "", {"program": found.program, "reason": found.reason}


def _output(case: Case) -> Verdicts:
    expected, got = (case[name].encode("utf-8", "surrogateescape") for name in ("expected", "got"))
    for whitespace in ("tokens", "lines", "exact"):
        found = difference(expected, got, whitespace, case.get("tolerance", 0.0))  # type: ignore[arg-type]
        yield whitespace, {"difference": found and str(found)}


def _judge(case: Case) -> Verdicts:
    from chat_server import compare_texts, say, serving

    with serving(say(compare_texts)) as server:
        env = verigym.load("judge", base_url=server.url, model="tiny")
        prompt = env.prompt("Which city is the capital of Australia?", answer="Canberra")
        yield "", stable_fields(env.score(prompt, _completion(case)))


def _judge_replies(case: Case) -> Verdicts:
    try:
        yield "", {"value": form_of(case["mode"], (1, 10)).read(case["reply"]).value}
    except Garbage:
        yield "", {"value": "garbage"}


def _lean(case: Case) -> Verdicts:
    from lean_cases import submission

    found = submission(case)
    if isinstance(found, Refused):
        yield "", {"refused": found.reason}
    else:
        yield "", {"guard": (refusal if case["mode"] == "slot" else file_refusal)(found)}


def _code(case: Case) -> Verdicts:
    language = case["reference"].get("language", "python")
    needs_tool({"cpp": "g++", "c": "gcc", "javascript": "node", "python": "python3"}.get(language, language))
    env = environment("code", **case.get("options", {}))
    text = case.get("text") or f"Here it is.\n```{language}\n{case['program']}\n```\n"
    completion = Completion(text=text, finish_reason=case.get("finish_reason", "stop"))
    yield "", stable_fields(env.score(env.prompt("Write it.", **case["reference"]), completion))


def needs_tool(name: str) -> None:
    """Raise Lacking where a program is not on the path."""
    if shutil.which(name) is None:
        raise Lacking(f"the program {name}")


def _hostile(case: Case) -> Verdicts:
    from tests.sandbox.hostile.tasks import Case as Hostile

    hostile = Hostile(**case)
    if hostile.expect == "RUN":
        raise Lacking("a probe of the walls, which is not judged")
    needs_tool({"c": "gcc", "cpp": "g++", "javascript": "node"}.get(hostile.lang, "python3"))
    env = environment("code", parallel=1)
    score = env.score(env.prompt(hostile.title, **hostile.reference()), hostile.completion)
    # Which limit or error ends a hostile program first is chance; where both verdicts are allowed, so is the reward.
    yield "", {"scored": score.scored} if hostile.expect == "EITHER" else {"reward": score.reward}


@functools.cache
def _played_on(name: str) -> Any:
    """Return an environment that episodes are played on, and its sessions."""
    from attacked_envs import MAKERS

    from verigym.envs.sessions import Sessions

    attacked = MAKERS[name]()
    return attacked, Sessions({attacked.env.name: attacked.env}, workers=0, timeout_s=60)


def _episodes(case: Case) -> Verdicts:
    from tests.envs.test_episode_attacks import played
    from verigym.datasets_cfg.fields import FieldProblem
    from verigym.grade.reading.completions import completion

    package = {"mcp": "mcp", "retrieval": "bm25s"}.get(case["env"])
    if package is not None and importlib.util.find_spec(package) is None:
        raise Lacking(f"the package {package}")
    attacked, sessions = _played_on(case["env"])
    try:
        episode = completion(case["saved"], "completion") if "saved" in case else played(sessions, attacked, case)
    except FieldProblem:
        yield "", {"refused": True}
    else:  # what an interpreter says of an error differs between versions, and is in reasons and answers
        score = attacked.env.score(attacked.task, episode)
        yield "", {"reward": score.reward, "status": score.status.value, "finish_reason": episode.finish_reason}


PANELS: dict[str, Reader] = {
    "code_fences": _fences,
    "code_output": _output,
    "code_verdicts": _code,
    "constraints_ifbench": _constraints,
    "constraints_ifeval": _constraints,
    "episodes": _episodes,
    "extract": _extract,
    "format": _format,
    "hostile_programs": _hostile,
    "hostile_programs_own": _hostile,
    "judge": _judge,
    "judge_replies": _judge_replies,
    "language": _language,
    "lean": _lean,
    "match": _match,
    "math": _math,
    "math_guards": _math_guards,
    "math_pairs": _math_pairs,
    "math_parse": _math_parse,
    "process": _process,
    "program_of_thought": _program_of_thought,
    "puzzles": _puzzles,
    "reasoning_gym": _gym,
    "shaping": _shaping,
}
SANDBOXED = frozenset(("code_verdicts", "episodes", "hostile_programs", "hostile_programs_own", "program_of_thought"))
