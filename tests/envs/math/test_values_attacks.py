"""Values that were made to look equal: steps and terms out of reach, what only the answer takes for an integer, budgets."""

import pytest
from cpu_time import within
from python_trees import tree

from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.equality.matrices import evaluate_matrix
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.equality.probing.points import fingerprint, real_points
from verigym.envs.math.equality.values import approximation, compare_values, proportional
from verigym.envs.math.reading.parse import parse

SAME = """
floor(sqrt(n)) | floor((4*n**2)**(1/4)/sqrt(2))
ceil(n/2) | floor((n + 1)/2)
ceil(n/2) | (2*n + 1 - (-1)**n)/4
floor(log(n, 2)) + 1 | ceil(log(n + 1, 2))
floor(x + 3) | floor(x) + 3
floor(-x) | -ceil(x)
abs(x) | max(x, -x)
max(a, b) | (a + b + abs(a - b))/2
max(x, y) + min(x, y) | x + y
sign(x)*x | abs(x)
m*n | gcd(m, n)*lcm(m, n)
tanh(x) | (e**x - e**(-x))/(e**x + e**(-x))
cosh(x)**2 - sinh(x)**2 | 1
alpha*conj(alpha) | abs(alpha)**2
"""

DIFFERENT = """
floor(sqrt(n - 1)) | floor(sqrt(n - 19))
floor(sqrt(n)) | floor(sqrt(n - 1))
floor(n/100) | floor((n + 1)/100)
ceil(n/2) | floor(n/2) + 1
ceil(log(n, 2)) | floor(log(n, 2)) + 1
ceil(log(x, 2)) | floor(log(x, 2)) + 1
floor(x) | ceil(x) - 1
max(x, y, -10**9) | max(x, y)
x + max(0, x - 10**30) | x
n + max(0, n - 10**30) | n + sin(pi*n)
floor(x) | floor(x + 0.000000001)
x + floor(1/(1 + x**2)) | x
x + max(0, x - 5000) | x
min(x, 10000) | x
abs(x - 10**6) | 10**6 - x
sqrt((x - 10**6)**2) | 10**6 - x
10**30 - abs(x - 10**30) | x
10**30 - sqrt((x - (10**6)**5)**2) | x
n | 10**30 - abs(n - 10**30) + sin(pi*n)
2*cos(pi*t + pi/3) | 2*cos(pi*t - pi/3)
pi*r**2 + sin(2*pi*r) | pi*r**2
t + sin(pi*t) | t
t**2*e**(2*pi*i*t) | t**2
tanh(100) | 1
sin(1)*root(root(root(root(2, 10**9), 10**9), 10**9), 10**9) | sin(1)
cosh(1000)/sinh(1000) | 1
conj(x)*i | x*i
cross(a, b) | cross(b, a)
"""

UNKNOWN = """
tanh(10000) | 1
x*tanh(10**6) | x
sign(x) | tanh(10**9*x)
factorial(n) + sum(k, k, 1600, n) | factorial(n)
gcd(n, 10007) + n | 1 + n
"""

# Whether a variable is an integer, the gold tells, which stands left.
DIRECTED = """
sin(n*pi) | 0 | same
0 | sin(n*pi) | different
n | n + sin(n*pi) | same
(-1)**(2*n) | 1 | same
1 | (-1)**(2*n) | different
x | floor(x) + 0*factorial(x) | different
x | floor(x)*(-1)**(2*x) | different
x | gcd(x, x) | unknown
abs(x) | x*(-1)**(2*x) | different
abs(x) | lcm(x, 1) | unknown
sqrt(x) | sqrt(floor(x))*(-1)**(2*x) | different
sin(x) | (-1)**(2*x)*sin(x) | different
n*(n + 1)/2 | binom(n + 1, 2) | same
x*(x + 1)/2 | binom(x + 1, 2) | same
n*(n + 1)/2 | sum(k, k, 1, n) | same
"""


def rows(table: str) -> list[tuple[str, ...]]:
    return [tuple(part.strip() for part in line.split(" | ")) for line in table.strip().splitlines()]


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        (*sides, verdict)
        for verdict, table in (("same", SAME), ("different", DIFFERENT), ("unknown", UNKNOWN))
        for sides in rows(table)
    ],
)
@pytest.mark.slow
def test_verdicts_do_not_depend_on_the_seed(left: str, right: str, verdict: str) -> None:
    a, b = tree(left), tree(right)
    assert {compare_values(a, b, str(seed)).verdict for seed in range(5)} == {verdict}
    assert {compare_values(b, a, str(seed)).verdict for seed in range(2)} == {verdict}


@pytest.mark.parametrize(("gold", "answer", "verdict"), rows(DIRECTED))
def test_the_gold_tells_what_is_an_integer(gold: str, answer: str, verdict: str) -> None:
    a, b = tree(gold), tree(answer)
    assert {compare_values(a, b, str(seed)).verdict for seed in range(4)} == {verdict}


def test_terms_beyond_the_points_are_never_overlooked() -> None:
    terms = ["binom(n, 600)", "prod(n - k, k, 1, 500)", "prod(n - k, k, 1, 2000)", "floor(n/501)", "floor(n/3000)"]
    for term in (*terms, "sum(k, k, 900, n)"):
        for gold in ("factorial(n)", "n**2*2**n"):
            a, b = tree(gold), tree(f"{gold} + {term}")
            assert "same" not in {compare_values(a, b, str(seed)).verdict for seed in range(3)}


def test_no_answer_can_be_built_from_the_points_of_another_comparison() -> None:
    x = tree("sin(x)")
    for seed in ("", "a row's key"):
        known = [point["x"] for point in real_points(["x"], frozenset(), fingerprint(x, x, seed))]
        zero = "*".join(f"(x - ({point}))" for point in known[:20])
        assert compare_values(x, tree(f"sin(x) + {zero}"), seed).verdict == "different"
        zero = "*".join(f"(x - ({point}))" for point in (point["x"] for point in real_points(["x"], frozenset(), seed)))
        assert compare_values(x, tree(f"sin(x) + {zero}"), seed).verdict == "different"
    big = [tree(f"x + {10**80 + step}") for step in (1, 2)]
    assert fingerprint(x, big[0], "") != fingerprint(x, big[1], "")
    assert fingerprint(x, big[0], "") == fingerprint(big[0], x, "")


def rows_of(entry: str, order: int, exponent: str) -> str:
    row = "[" + ", ".join([entry] * order) + "]"
    return f"[{', '.join([row] * order)}]**{exponent}"


HEAVY = [
    "+".join(["x/factorial(8000)"] * 200),
    "+".join(["x/(factorial(8000) - factorial(8000))"] * 100),
    "+".join(f"sin(factorial({number}))" for number in range(900, 1100)),
    "+".join(f"sqrt(factorial({number}))" for number in range(900, 1100)),
    "+".join(f"factorial(n)/{number}" for number in range(2, 300)),
    "+".join(f"abs(x - {number})" for number in range(300)),
    "+".join(f"floor(x/{number})" for number in range(2, 100)),
    "+".join(f"sqrt(factorial({number}))" for number in range(7000, 7100)),
    "gcd(" + ", ".join(f"factorial({number})" for number in range(7000, 7100)) + ")",
    "max(" + ", ".join(f"x**{number}" for number in range(200)) + ")",
    "sum(sum(sin(k + j), k, 1, 99), j, 1, 99)",
    f"det({rows_of('factorial(8000)', 8, '64')})",
    f"det({rows_of('x', 8, '64')})",
]


@pytest.mark.parametrize("text", HEAVY)
def test_one_comparison_has_one_budget(text: str) -> None:
    """The budget is about 75 ms."""
    node = tree(text)
    for gold in (tree("x"), tree(f"sin(x)**2 + cos(x)**2 - 1 + {text}")):
        for _ in within(1.2):
            compare_values(gold, node)
            proportional(gold, node)
            approximation(node)
            rational(node)


@pytest.mark.parametrize(
    "text", [rows_of("factorial(8000)", 8, "64"), rows_of("x", 8, "64"), rows_of("x + sqrt(y)", 4, "(-1)")]
)
def test_a_matrix_has_one_budget(text: str) -> None:
    node = tree(text)
    for _ in within(0.3):
        evaluate_matrix(node)


def test_comparisons_share_a_budget() -> None:
    one, two = tree("sum(sin(k), k, 1, 9999)"), tree("sum(sin(k + 1), k, 0, 9998)")
    for _ in within(0.5):
        work = WorkBudget(300_000)
        for _ in range(200):
            compare_values(one, two, "", work)
            proportional(one, two, "", work)
            approximation(one, 30, work)
            rational(one, work)
            evaluate_matrix(tree("[[1, 2], [3, 4]]**2"), work)
        assert work.left < 0
        assert compare_values(one, two, "", work) == ("unknown", "limit")
        assert compare_values(one, one, "", work) == ("same", "exact")
        assert compare_values(tree("5"), tree("6"), "", work) == ("different", "exact")


def test_what_was_dear_is_remembered_in_its_budget() -> None:
    work, node = WorkBudget(10**7), tree("factorial(3000)")
    first = rational(node, work)
    spent = work.used
    assert first is not None
    assert spent > 1000
    for _ in range(1000):
        assert rational(node, work) == first
    assert work.used == spent


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        (r"\sum_{k=0}^{n-1} F_k F_{n-k-1}", r"\sum_{j=0}^{n-1} F_{n-1-j}F_j", "same"),
        (r"\sum_{k=0}^{n-1} F_k^2 F_{n-k-1}", r"\sum_{k=0}^{n-1} F_k F_{n-1-k}^2", "same"),
        (r"\sum_{k=0}^{n-1} F_k F_{n-k-1}", r"\sum_{k=0}^{n-1} F_k F_{n-k}", "different"),
        (r"a_0 + a_1 + a_2", r"\sum_{k=0}^{2} a_k", "same"),
        (r"a_{n+1}", r"a_{1+n}", "same"),
        (r"a_{n+1}", r"a_{n-1}", "different"),
        (r"\sum_{i=1}^{n} a_{ij}", r"\sum_{i=1}^{n} a_{ji}", "different"),
        (r"S_{ABC}", r"S_{ACB}", "different"),
        (r"\frac{6\sqrt{1789-240\sqrt{21}}+8\sqrt{1236-240\sqrt{21}}}{5}", r"96-10\sqrt{21}", "same"),
        (r"\begin{vmatrix}a&b\\c&d\end{vmatrix}", r"ad-bc", "same"),
        (r"e^{\frac{2\pi i}{3}}", r"\cos\frac{2\pi}{3}+i\sin\frac{2\pi}{3}", "same"),
        (r"\tan 45^\circ", r"1", "same"),
        (r"\ln|x|+C", r"C+\ln|x|", "same"),
    ],
)
def test_written_answers(left: str, right: str, verdict: str) -> None:
    assert compare_values(parse(left), parse(right)).verdict == verdict
    assert compare_values(parse(right), parse(left)).verdict == verdict
