r"""Sums of unit vectors, `2i + 3j`, are vectors where nothing else can be meant; worked out, and not the question's own."""

import pytest

from verigym.envs.math.environment import MathEnvironment
from verigym.envs.math.reading.parse import ParseError, parse

OF_UV = r"Let $\mathbf u=\mathbf i+2\mathbf j$ and $\mathbf v=3\mathbf i-\mathbf j$. Find $2\mathbf u+3\mathbf v$."


@pytest.mark.parametrize(
    ("question", "gold", "answer"),
    [
        ("Compute $(1,2,3)+(2,0,1)$.", "(3,2,4)", r"(\mathbf i+2\mathbf j+3\mathbf k)+(2\mathbf i+\mathbf k)"),
        (OF_UV, "(11,1)", r"2(\mathbf i+2\mathbf j)+3(3\mathbf i-\mathbf j)"),
        ("Compute $3(1,2)$.", "(3,6)", r"3(\mathbf i+2\mathbf j)"),
        (r"Simplify $\langle 1,2\rangle + 2\langle 3,4\rangle$.", r"\langle 7,10\rangle", "i+2j+2(3i+4j)"),
        ("The sum of the row index i and the column index j?", "i+j", "(1,1)"),
        ("Solve, with an integer k.", "k", "(0,0,1)"),
        ("Find the open interval where f is increasing.", "(2,3)", "2i+3j"),
        ("Find the closed interval.", "[2,3]", "2i+3j"),
        ("What is the point?", "(0,1)", "j"),
        ("Find the remainder and quotient.", "(1,2)", "1i+2j"),
        ("Find the vector.", "2i-3j+k", r"2\hat{i}-3\hat{j}+2\hat{k}"),
        ("Find the vector.", "(2,3)", r"2\hat{i}+3\hat{k}"),
        ("Find the pair of complex numbers.", "(-1,1)", "i^2i+j"),
    ],
)
def test_refused(question: str, gold: str, answer: str) -> None:
    env = MathEnvironment()
    score = env.score(env.prompt(question, answer=gold), rf"\boxed{{{answer}}}")
    assert score.status == "incorrect", score.reason


@pytest.mark.parametrize("answer", ["18\\text{ cookies or 19 left}", "19\\text{ cookies left}", "18\\text{ maybe left}"])
def test_other_tails(answer: str) -> None:
    env = MathEnvironment()
    score = env.score(env.prompt("How many cookies are left?", answer="18"), rf"\boxed{{{answer}}}")
    assert score.status == "incorrect", score.reason


@pytest.mark.parametrize("text", ["C^", "x+C^", "(k22C^", "C^{3", "C^3_", "C^{3}_{"])
def test_an_unfinished_choice_is_no_crash(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)
