"""Published programs pass their own tests in the sandbox; hollowed out, they fail. The whole sets: benchmarks/code_golds.py."""

import runpy
from pathlib import Path

import pytest
from needs import lack

from verigym.cli import main
from verigym.datasets_cfg import load
from verigym.envs import EnvironmentFailure
from verigym.envs import load as load_environment

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/code_golds.py"))


@pytest.fixture(scope="module", autouse=True)
def sandbox():
    try:
        load_environment("code").check()
    except EnvironmentFailure as failure:
        lack("sandbox", failure)


def test_hollow_keeps_what_is_not_a_function():
    source = (
        "import math\nLIMIT = 3\nclass Node:\n    def f(self): return 1\ndef f(n, m=LIMIT):\n    '''Doc.'''\n    return n\n"
    )
    assert BENCHMARK["hollow"](source) == (
        "import math\nLIMIT = 3\n\nclass Node:\n\n    def f(self):\n        return 1\n\ndef f(n, m=LIMIT):\n    return None"
    )


@pytest.mark.parametrize(
    ("name", "split", "rows"), [("humaneval", "test", 12), ("mbpp", "train", 8), ("mbpp_sanitized", "test", 8)]
)
def test_golds_pass_and_hollow_golds_fail(shared_data, name, split, rows):
    prompts = load(name, split, data_dir=shared_data, limit=rows)
    assert BENCHMARK["grade"](prompts, 0, mutants=False)[::2] == (rows, [])
    assert BENCHMARK["grade"](prompts, 0, mutants=True)[::2] == (0, [])


SOLVED = {  # our own programs for rows whose carrier has none
    ("sandboxfusion_livecodebench", 0): "for _ in range(int(input())):\n"
    "    print('YES' if sum(a != b for a, b in zip(input(), 'abc')) <= 2 else 'NO')",
    ("sandboxfusion_livecodebench", 1): "class Solution:\n    def countSeniors(self, details: List[str]) -> int:\n"
    "        return sum(int(text[11:13]) > 60 for text in details)",
    ("sandboxfusion_livecodebench", 2): "n, s = int(input()), input()\nt = s.count('T')\n"
    "print('T' if 2 * t > n or (2 * t == n and s[-1] == 'A') else 'A')",
    ("sandboxfusion_code_contests", 3): "from collections import Counter\nn = int(input())\n"
    "old, new = (Counter(input() for _ in range(n)) for _ in range(2))\nprint(sum((old - new).values()))",
    ("sandboxfusion_code_contests", 9): "n, k = map(int, input().split())\nroot = list(range(n))\n"
    "def find(x):\n    while root[x] != x: root[x] = x = root[root[x]]\n    return x\n"
    "for _ in range(n - 1):\n    a, b, black = map(int, input().split())\n"
    "    if not black: root[find(a - 1)] = find(b - 1)\n"
    "sizes = {}\nfor x in range(n): sizes[find(x)] = sizes.get(find(x), 0) + 1\n"
    "print((n**k - sum(size**k for size in sizes.values())) % (10**9 + 7))",
}


@pytest.mark.parametrize("place", SOLVED, ids=lambda place: f"{place[0]}-{place[1]}")
def test_contest_rows_accept_a_solution_and_nothing_near_it(shared_data, place):
    name, row = place
    prompts = load(name, "test", data_dir=shared_data)
    program = SOLVED[place]
    score = prompts.environment.score(prompts[row], f"```python\n{program}\n```")
    assert score.reward == 1.0, score.reason
    off = (
        program.replace("<= 2", "<= 1")
        .replace("> 60", "> 40")
        .replace("'A')", "'T')")
        .replace("old - new", "old")
        .replace("n**k - ", "n**k + ")
    )
    assert off != program
    assert prompts.environment.score(prompts[row], f"```python\n{off}\n```").reward == 0.0


@pytest.mark.slow
def test_every_humaneval_gold_passes(shared_data, capsys):
    assert main(["validate", "humaneval", "--split", "test", "--data-dir", str(shared_data)]) == 0
    assert "164 of 164 golds" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("name", "golds"), [("mbpp", "974 of 974"), ("mbpp_sanitized", "399 of 399")])
def test_every_mbpp_gold_passes(shared_data, capsys, name, golds):
    assert main(["validate", name, "--split", "all", "--data-dir", str(shared_data)]) == 0
    assert f"{golds} golds" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("name", "split"), [("humaneval", "test"), ("mbpp_sanitized", "all")])
def test_no_hollow_gold_passes(shared_data, name, split):
    assert BENCHMARK["grade"](load(name, split, data_dir=shared_data), 0, mutants=True)[::2] == (0, [])
