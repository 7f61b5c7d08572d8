"""No verdict costs more than a second of CPU at default settings: what SymPy would take longer for is LIMIT."""

import pytest
from cpu_time import within
from symbolic_cpu import workers_cpu_s

from verigym.envs import Status
from verigym.envs.isolated import client
from verigym.envs.math.environment import MathEnvironment

MAX_CPU_S = 1.0
_DETERMINANT = r"\\".join("&".join(f"x_{{{column}{row}}}" for column in range(8)) for row in range(8))


@pytest.mark.parametrize(
    "answer",
    [
        rf"\det\begin{{pmatrix}}{_DETERMINANT}\end{{pmatrix}}",
        r"\sum_{k=1}^{10^{12}} \frac{1}{k^2}",
        r"\prod_{k=1}^{10^{9}} k",
        r"\lfloor e^{e^{e^{e}}} \rfloor",
    ],
    ids=["determinant", "sum", "product", "floor"],
)
@pytest.mark.slow
def test_what_takes_long_is_limit(answer: str) -> None:
    env = MathEnvironment()
    client.warm_up()
    prompt = env.prompt("Expand $(x+1)^2$.", answer="x^2+2x+1")
    for _ in within(MAX_CPU_S, workers_cpu_s):
        score = env.score(prompt, rf"\boxed{{{answer}}}")
        assert score.status is Status.LIMIT, score.reason
