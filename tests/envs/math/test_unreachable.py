r"""No text reaches Python's or SymPy's evaluators: they are made to raise, and grading goes on as before.

Each check runs in a process of its own. The cases are the repository's own and, where they are present, the development cases.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
DEVELOPMENT = ROOT.parent / "shared" / "data" / "math_equivalence" / "cases.jsonl"

SETUP = r'''
import builtins, importlib, json, pkgutil, sys
from pathlib import Path

def load_cases(own, development):
    cases = []
    for number, line in enumerate(Path(own).read_text().splitlines()):
        case = json.loads(line)
        if number % 3 == 0 and not set(case) - {"section", "completion", "gold", "expected", "why", "question"}:
            cases.append((case.get("question", "What is it?"), case["gold"], case["completion"]))
    if Path(development).exists():
        for line in Path(development).read_text().splitlines()[::3]:
            case = json.loads(line)
            whole = "\\boxed" in case["pred"] or case["level"] != "answer"
            text = case["pred"] if whole else "\\boxed{%s}" % case["pred"].strip("$")
            cases.append(("What is it?", case["gold"], text))
    cases += [("What is it?", gold, "\\boxed{%s}" % text) for gold in ("5", "x+1", "[0,1)", "\\text{odd}") for text in HACKS]
    return cases

HACKS = [
    "__import__('os').system('true')", "().__class__.__bases__[0].__subclasses__()", "exec('x=5')", "eval('5')",
    "5 if True else 6", "[x for x in (5,)]", "lambda: 5", "sympify('5')", "S('5')", "Integer(5)",
    "open('/etc/passwd').read()", "5;import os", "f'{5}'",
]

def verdicts(cases, **options):
    from verigym.envs.math.environment import MathEnvironment
    env = MathEnvironment(string_tier=False, **options)
    found = []
    for question, gold, completion in cases:
        score = env.score(env.prompt(question, answer=gold), completion)
        found.append([score.status.value, score.error.kind if score.error else ""])
    return found

def everything_loaded():
    import mpmath
    import verigym.envs.math
    in_workers = ("worker", "decide", "construct", "math_verify")
    for module in pkgutil.walk_packages(verigym.envs.math.__path__, "verigym.envs.math."):
        if module.name.rpartition(".")[2] not in in_workers:
            importlib.import_module(module.name)
    import verigym.envs.math.environment

REACHED = []

def closed(name, original):
    def refuse(*args, **kwargs):
        caller = sys._getframe(1).f_code.co_filename
        if caller.startswith("<frozen importlib"):  # the body of a module that is imported for the first time
            return original(*args, **kwargs)
        REACHED.append(f"{name} from {caller}")
        raise SystemError(f"{name} was reached from {caller}")
    return refuse

UNWANTED = ("sympy", "math_verify", "latex2sympy2_extended", "antlr4")

class Absent:
    """Refuses to import what the trusted process must not hold."""
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in UNWANTED:
            raise SystemError(f"{name} was imported by the trusted process")
        return None
'''

TRUSTED = r"""
cases = load_cases(*sys.argv[1:3])
everything_loaded()
sys.meta_path.insert(0, Absent())
for name in ("eval", "exec", "compile"):
    setattr(builtins, name, closed(name, getattr(builtins, name)))
found = verdicts(cases, **json.loads(sys.argv[3]))
held = sorted(name for name in sys.modules if name.partition(".")[0] in UNWANTED)
print(json.dumps({"verdicts": found, "held": held, "reached": REACHED}))
"""

PLAIN = r"""
cases = load_cases(*sys.argv[1:3])
print(json.dumps({"verdicts": verdicts(cases, **json.loads(sys.argv[3])), "held": [], "reached": REACHED}))
"""

PARSERS = r"""
import math_verify, sympy, sympy.parsing.latex, sympy.parsing.sympy_parser
core, parser = importlib.import_module("sympy.core.sympify"), sys.modules["sympy.parsing.sympy_parser"]

def refuse(*args, **kwargs):
    REACHED.append("a parser of text")
    raise SystemError("a parser of text was reached")

def no_text(original):
    def reads_no_text(value, *args, **kwargs):
        return refuse() if isinstance(value, str) else original(value, *args, **kwargs)
    return reads_no_text

core.sympify = sympy.sympify = sympy.S.__class__.__call__ = no_text(core.sympify)
sympy.parse_expr = parser.parse_expr = parser.eval_expr = refuse
sympy.parsing.latex.parse_latex = math_verify.parse = math_verify.verify = refuse
cases = load_cases(*sys.argv[1:3])
print(json.dumps({"verdicts": verdicts(cases, **json.loads(sys.argv[3])), "held": [], "reached": REACHED}))
"""

WORKER = r"""
import signal
from verigym.envs.math.symbolic import wire, worker
from verigym.envs.math.reading.parse import ParseError, parse
compare = worker.load()
assert sys.modules["sympy.parsing.sympy_parser"] is None

class Slow(Exception):
    pass

def ring(number, frame):
    raise Slow

signal.signal(signal.SIGALRM, ring)
found, texts = [], []
for question, gold, completion in load_cases(*sys.argv[1:3]):
    gold = gold if isinstance(gold, str) else gold[0]
    texts.append((gold, completion[completion.rfind("{") + 1 :].rstrip("}")))
    texts.append((gold, gold))
plain = [builtins.eval, builtins.exec, builtins.compile]
payloads = []
for gold, answer in texts:
    try:
        payloads.append(wire.dumps(parse(gold), parse(answer)))
    except (ParseError, wire.WireError):
        continue
for payload in payloads[:: max(1, len(payloads) // 100)]:
    for name in ("eval", "exec", "compile"):
        setattr(builtins, name, closed(name, getattr(builtins, name)))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        verdict = json.loads(compare(payload))["verdict"]
    except Slow:
        verdict = "slow"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        builtins.eval, builtins.exec, builtins.compile = plain
    found.append([verdict, ""])
print(json.dumps({"verdicts": found, "held": [], "reached": REACHED}))
"""


def run(body: str, **options: Any) -> dict[str, Any]:
    arguments = [str(ROOT / "tests/cases/math.jsonl"), str(DEVELOPMENT), json.dumps(options)]
    done = subprocess.run(
        [sys.executable, "-c", SETUP + body, *arguments], capture_output=True, text=True, timeout=1200, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["reached"] == []  # what is raised there might be caught
    return result


@pytest.fixture(scope="module", params=[False, True], ids=["without the worker", "with the worker"])
def symbolic(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def usual(symbolic: bool) -> list[list[str]]:
    found: list[list[str]] = run(PLAIN, symbolic=symbolic)["verdicts"]
    assert len(found) > 150
    assert {"correct", "incorrect"} <= {status for status, _ in found}
    assert not [kind for _, kind in found if kind not in ("", "gold_invalid")]
    return found


@pytest.mark.slow
def test_the_trusted_process_evaluates_no_text_and_holds_no_sympy(symbolic: bool, usual: list[list[str]]) -> None:
    result = run(TRUSTED, symbolic=symbolic)
    assert result["held"] == []
    assert result["verdicts"] == usual


@pytest.mark.slow
def test_no_parser_of_sympy_or_math_verify_is_reached(symbolic: bool, usual: list[list[str]]) -> None:
    assert run(PARSERS, symbolic=symbolic)["verdicts"] == usual


@pytest.mark.slow
def test_the_worker_evaluates_no_text_either() -> None:
    found = [verdict for verdict, _ in run(WORKER)["verdicts"]]
    assert len(found) >= 100
    assert {"same", "different"} <= set(found) <= {"same", "different", "unknown", "slow"}


def test_the_word_for_it_occurs_nowhere_in_the_environments() -> None:
    for file in sorted((ROOT / "envs" / "maths").glob("*.py")):
        source = file.read_text(encoding="utf-8")
        for word in ("eval(", "exec(", "parse_expr", "sympify", "pickle", "shell=True"):
            assert word not in source, f"{word!r} in {file.name}"
