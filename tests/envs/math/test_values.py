"""The verdicts of `compare_values`, as data: left, right, how it was found."""

import pytest
from cases import cases
from python_trees import tree

from verigym.envs.math.equality.values import compare_values

SAME = """
5 | 5.0 | exact
1/2 | 0.5 | exact
percent(50) | 1/2 | exact
6/4 | 3/2 | exact
-(-3) | 3 | exact
8**(1/3) | 2 | exact
8**(-2/3) | 1/4 | exact
sqrt(16) | 4 | exact
root(-8, 3) | -2 | exact
(-8)**(1/3) | -2 | exact
root(1/27, 3) | 1/3 | exact
factorial(5) | 120 | exact
doublefactorial(7) | 105 | exact
binom(10, 3) | 120 | exact
binom(-2, 3) | -4 | exact
perm(5, 2) | 20 | exact
gcd(12, 18) | 6 | exact
lcm(4, 6, 10) | 60 | exact
mod(-7, 3) | 2 | exact
floor(-7/2) | -4 | exact
ceil(7/2) | 4 | exact
abs(-7/2) | 3.5 | exact
max(1, 7/2, 2) | 3.5 | exact
min(1, 7/2, -2) | -2 | exact
log(8, 2) | 3 | exact
log(1/9, 27) | -2/3 | exact
log(0.001, 10) | -3 | exact
sum(k**2, k, 1, 100) | 338350 | exact
prod(k, k, 1, 6) | 720 | exact
sum(sum(j*k, j, 1, k), k, 1, 4) | 65 | exact
det([[1, 2], [3, 4]]) | -2 | exact
det([[2, 0, 1], [1, 3, 2], [1, 1, 4]]) | 18 | exact
2**10 | 1024 | exact
2**(-99) | 1/2**99 | exact
(1/2)**(-3) | 8 | exact
1000000007**20/1000000007**19 | 1000000007 | exact
1/factorial(2004) | 2005/factorial(2005) | exact
9**(9**(9**9)) | 9**(9**(9**9)) | exact
oo | 2*oo | exact
-oo | -(oo) | exact
x + y | y + x | canonical
2*(x + 1) | 2*x + 2 | canonical
(x - 1)*(x + 1) | x**2 - 1 | canonical
(x + y)**3 | x**3 + 3*x**2*y + 3*x*y**2 + y**3 | canonical
1/x + 1/y | (x + y)/(x*y) | canonical
x/(x + 1) + 1/(x + 1) | 1 | canonical
(x**2 - 1)/(x - 1) | x + 1 | canonical
1/(1/x) | x | canonical
x**(-2) | 1/x**2 | canonical
1/sqrt(2) | sqrt(2)/2 | canonical
sqrt(12) | 2*sqrt(3) | canonical
sqrt(2)*sqrt(3) | sqrt(6) | canonical
1/(1 + sqrt(2)) | sqrt(2) - 1 | canonical
(3 + 2*sqrt(7))/2 | 3/2 + sqrt(7) | canonical
sqrt(1/3) | sqrt(3)/3 | canonical
root(16, 3) | 2*root(2, 3) | canonical
root(4, 4) | sqrt(2) | canonical
4*root(2, 3)**2 | 4*root(4, 3) | canonical
sqrt(x)*sqrt(x) | x | canonical
sqrt(4*x) | 2*sqrt(x) | canonical
x**(5/2) | x**2*sqrt(x) | canonical
sqrt(x + 1)**3 | (x + 1)*sqrt(x + 1) | canonical
1/sqrt(x + 1) | sqrt(x + 1)/(x + 1) | canonical
1/(3*root(x, 3)**2) | 1/(3*x**(2/3)) | canonical
-(2*(x**2+6))/(9*(x**2-2)*root(x**2-2,3)**2) | -(8*x**2)/(9*(x**2-2)**(5/3))+2/(3*(x**2-2)**(2/3)) | canonical
i**2 | -1 | canonical
i**103 | -i | canonical
1/i | -i | canonical
(1 + i)**2 | 2*i | canonical
(1 + i)**100 | -2**50 | canonical
(3 + 4*i)/(1 - 2*i) | -1 + 2*i | canonical
sqrt(-4) | 2*i | canonical
sqrt(-3)*x | i*sqrt(3)*x | canonical
2**(n + 1) | 2*2**n | canonical
4**n | 2**(2*n) | canonical
6**n | 2**n*3**n | canonical
(2**n)**2 | 4**n | canonical
x**(n + 1) | x*x**n | canonical
e**(x + 1) | e*e**x | canonical
exp(x) | e**x | canonical
exp(2*x) | exp(x)**2 | canonical
10**(10**10)/10 | 10**(10**10 - 1) | probed
ln(8) | 3*ln(2) | canonical
ln(2/3) | ln(2) - ln(3) | canonical
log(8, 4*2) | 1 | exact
log(x, 2) | ln(x)/ln(2) | canonical
ln(e) | 1 | canonical
tan(x) | sin(x)/cos(x) | canonical
F(n - 1)*F(k) | F(k)*F(n - 1) | canonical
F(n - 1 + 1) | F(n) | canonical
S_1 + S_2 | S_2 + S_1 | canonical
sum(F(k)*F(n-k-1), k, 0, n-1) | sum(F(n-1-j)*F(j), j, 0, n-1) | canonical
sum(x**k, k, 0, 3) | 1 + x + x**2 + x**3 | canonical
int(f(x), x, 0, 1) | int(f(t), t, 0, 1) | canonical
lim(f(x), x, 0) | lim(f(t), t, 0) | canonical
det([[a, b], [c, d]]) | a*d - b*c | canonical
det([[x, 1, 0], [0, x, 1], [1, 0, x]]) | x**3 + 1 | canonical
norm([[3], [x], [0]]) | sqrt(9 + abs(x)**2) | canonical
floor(sqrt(2)**2) | 2 | canonical
sqrt(3 + 2*sqrt(2)) | 1 + sqrt(2) | probed
root(2 + sqrt(5), 3) - root(sqrt(5) - 2, 3) | 1 | probed
96-10*sqrt(21) | (6*sqrt(1789-240*sqrt(21))+8*sqrt(1236-240*sqrt(21)))/5 | probed
(1 + sqrt(5))/2 | 2*cos(pi/5) | probed
sin(pi/6) | 1/2 | probed
sin(deg(30)) | 1/2 | probed
cos(deg(36)) | (1 + sqrt(5))/4 | probed
sin(pi) | 0 | probed
cos(pi/2) | 0 | probed
arcsin(1) | pi/2 | probed
arccos(-1) | pi | probed
arccot(1) | pi/4 | probed
4*arctan(1) | pi | probed
ln(sqrt(e)) | 1/2 | probed
e**(2*ln(3)) | 9 | probed
2**log(5, 2) | 5 | probed
log(27, 4)*log(4, 3) | 3 | canonical
e**(i*pi) | -1 | probed
i**i | e**(-pi/2) | probed
ln(-1) | i*pi | probed
sqrt(i) | (1 + i)/sqrt(2) | probed
abs(3 + 4*i) | 5 | probed
conj(2 + i) | 2 - i | probed
re(3 - 2*i) | 3 | probed
im(3 - 2*i) | -2 | probed
arg(i) | pi/2 | probed
floor(pi) | 3 | probed
ceil(pi) | 4 | probed
max(sqrt(2), 1) | sqrt(2) | probed
sign(-pi) | -1 | probed
factorial(10**7) | factorial(10**7 - 1)*10**7 | probed
sin(10**100)**2 + cos(10**100)**2 | 1 | probed
tan(y)**2 + 1 | sec(y)**2 | probed
2*sin(b)*cos(a) | sin(a + b) - sin(a - b) | probed
sin(2*x) | 2*sin(x)*cos(x) | probed
sinh(x) | (e**x - e**(-x))/2 | probed
e**(i*x) | cos(x) + i*sin(x) | probed
sqrt(x**2) | abs(x) | probed
sqrt(x*y) | sqrt(x)*sqrt(y) | probed
sqrt(1/n) | 1/sqrt(n) | canonical
ln(x**2) | 2*ln(x) | probed
ln(x*y) | ln(x) + ln(y) | probed
x**(1/3)*y**(1/3) | (x*y)**(1/3) | probed
cos(n*pi) | (-1)**n | probed
factorial(n) | n*factorial(n - 1) | probed
binom(n, 2) | n*(n - 1)/2 | probed
binom(n, k) | factorial(n)/(factorial(k)*factorial(n - k)) | probed
mod(n, 2) | (1 - (-1)**n)/2 | probed
sum(k, k, 1, n) | n*(n + 1)/2 | probed
conj(x) + 1 | 1 + conj(x) | canonical
sum(x**k, k, 0, n) | (x**(n + 1) - 1)/(x - 1) | probed
sum(binom(n, k), k, 0, n) | 2**n | probed
prod(k, k, 1, n) | factorial(n) | probed
z*conj(z) | abs(z)**2 | probed
f(x**2 - 1) | f((x - 1)*(x + 1)) | canonical
f(sqrt(3 + 2*sqrt(2))) | f(1 + sqrt(2)) | probed
(a+b+c+d+f+g)**12 | (g+b+c+d+f+a)**12 | probed
"""

DIFFERENT = """
5 | 6 | exact
12345678902 | 12345678901 | exact
0.333 | 1/3 | exact
1/factorial(2004) | 1/factorial(2006) | exact
1 + 1/factorial(2004) | 1 + 1/factorial(2006) | exact
2**(-99) | 2**(-98) | exact
0.0000001 | 0.0000002 | exact
root(-8, 3) | 2 | exact
oo | -oo | exact
oo | 5 | exact
-oo | x | exact
x | y | canonical
x + 1 | x | canonical
x**2 - 1 | (x - 1)**2 | canonical
2*x | x | canonical
1/x | 1/(x + 1) | canonical
sqrt(2) | 1.4142135623730951 | canonical
sqrt(2) | sqrt(3) | canonical
sqrt(2) + sqrt(3) | sqrt(5) | canonical
1 - sqrt(2) | 1 | canonical
4*sqrt(2) | 4 | canonical
pi | 3.14159265358979323846 | canonical
pi/4 | pi/3 | canonical
e | 2.718281828459045 | canonical
1 - 1/e | 1 + 1/e | canonical
2 + 3*i | 2 - 3*i | canonical
i | 1 | canonical
sqrt(2) + 1/factorial(2004) | sqrt(2) + 1/factorial(2006) | canonical
10**(10**10) | 10**(10**10) + 1 | canonical
x**x | x**x + 0.000000001 | canonical
e**pi | pi**e | probed
e**(pi*sqrt(163)) | 640320**3 + 744 | probed
sqrt(3 + 2*sqrt(2)) | 1 + sqrt(3) | probed
sqrt(1789-240*sqrt(21)) | sqrt(1788-240*sqrt(21)) | probed
sin(1) + cos(1)/factorial(500) | sin(1) + cos(1)/factorial(501) | probed
sin(1) | sin(1)*(10**100 + 1)/10**100 | probed
cos(1/factorial(100)) | cos(1/factorial(101)) | probed
x + e**(-1000*x**2)*sin(x) | x | probed
sin(x) | x | probed
sin(x) | cos(x) | probed
sqrt(x**2) | x | probed
abs(x) | x | probed
abs(x - 100) | 100 - x | probed
floor(x) | x | probed
floor(x/1000) | 0 | probed
(-1)**n | 1 | probed
cos(n*pi) | 1 | probed
mod(n, 3) | mod(n, 2) | probed
factorial(n) | n | probed
factorial(10**7) | 5 | probed
sum(k**2, k, 1, n) | n*(n + 1)*(2*n + 2)/6 | probed
binom(n, k) | binom(k, n) | probed
F(n - 1)*F(k) | F(k)*F(n) | probed
f(x) | g(x) | probed
f(x) | f(y) | probed
f(x) | x | probed
a*conj(b) | a*b | canonical
conj(x) | x | canonical
conj(z) | z | probed
ln(ln(ln(10**(10**10)))) | 5 | probed
sin(x)*(x-1)*(x-2)*(x-3)*(x-4)*(x-5) + x | x | probed
(a+b+c+d+f+g)**12 | (a+b+c+d+f+h)**12 | probed
2**n | n**2 | probed
e**x | e**(-x) | probed
"""

UNKNOWN = """
1/0 | 2/0 | probed
1/(sqrt(2)**2 - 2) | 5 | probed
tan(pi/2) | 0 | probed
0**0 | 1 | probed
ln(0) | 1 | probed
oo - oo | 0 | probed
oo/oo | oo | probed
lim(sin(x)/x, x, 0) | 1 | probed
int(x, x, 0, 1) | 1/2 | probed
diff(x**2, x) | 2*x | probed
sum(1/k**2, k, 1, oo) | pi**2/6 | probed
2**(2**(2**49)) | 3 | limit
9**(9**(9**9)) | 9**(9**(9**8)) | limit
sin(2**(2**(2**49))) | 0 | limit
sin(1) + 1/factorial(10**6) | sin(1) + 1/factorial(10**6 + 1) | limit
sum(sin(k), k, 1, 10**9) | 0 | limit
det([[1, 2], [3, 4], [5, 6]]) | 0 | probed
"""


def rows(table: str) -> list[tuple[str, str, str]]:
    return [tuple(part.strip() for part in line.split(" | ")) for line in table.strip().splitlines()]


@cases(
    ("left", "right", "verdict", "how"),
    [
        (left, right, verdict, how)
        for verdict, table in (("same", SAME), ("different", DIFFERENT), ("unknown", UNKNOWN))
        for left, right, how in rows(table)
    ],
)
def test_verdict(left: str, right: str, verdict: str, how: str) -> None:
    a, b = tree(left), tree(right)
    assert compare_values(a, b) == (verdict, how)
    assert compare_values(b, a, "another seed") == (verdict, how)


@cases("text", sorted({side for table in (SAME, DIFFERENT, UNKNOWN) for *sides, _ in rows(table) for side in sides}))
def test_every_expression_equals_itself_and_nothing_else(text: str) -> None:
    a = tree(text)
    assert compare_values(a, a).verdict == "same"
    assert compare_values(tree(f"({text}) + 1"), a).verdict != "same"
    assert compare_values(tree(f"0 + ({text})"), a).verdict != "different"


@pytest.mark.parametrize(("left", "right"), [(left, right) for left, right, how in rows(DIFFERENT) if how == "probed"])
def test_no_seed_makes_different_expressions_agree(left: str, right: str) -> None:
    a, b = tree(left), tree(right)
    verdicts = [compare_values(a, b, str(seed)).verdict for seed in range(9)]
    assert "same" not in verdicts
    assert verdicts.count("different") >= 8


@pytest.mark.parametrize(("left", "right"), [(left, right) for left, right, how in rows(SAME) if how == "probed"])
def test_no_seed_makes_equal_expressions_differ(left: str, right: str) -> None:
    a, b = tree(left), tree(right)
    assert {compare_values(a, b, str(seed)).verdict for seed in range(9)} == {"same"}
