r"""Rewrites of the shape: order of solutions and terms, sides of an equation, names before a value, plain text."""

from __future__ import annotations

import math
import random
import re

from mathgen.registry import Registry, joined, pure, signed_terms
from mathgen.text import compact, elements, kind, shell, split_top, tokens

SHAPE = Registry()

_SCALARS = ("integer", "decimal", "fraction", "scalar", "mixed")


def _parts(text: str, question: str) -> list[str] | None:
    """Return the elements of a list of solutions whose order says nothing."""
    body = pure(text)
    if body is None or kind(text, question) != "list" or "dots" in text:
        return None
    parts = [part.strip() for part in split_top(body)]
    return parts if all(parts) and len(parts) > 1 else None


@SHAPE
def reversed_list(text: str, question: str, rng: random.Random) -> str | None:
    parts = _parts(text, question)
    return ", ".join(reversed(parts)) if parts and "=" not in text else None


@SHAPE
def shuffled_list(text: str, question: str, rng: random.Random) -> str | None:
    parts = _parts(text, question)
    return rng.choice([",", ", ", r",\, ", r",\ "]).join(rng.sample(parts, len(parts))) if parts and "=" not in text else None


@SHAPE
def joined_list(text: str, question: str, rng: random.Random) -> str | None:
    parts = _parts(text, question)
    word = rng.choice([r" \text{ and } ", r" \text{ or } ", r"\text{, and }", r"\;\text{or}\;"])
    return ", ".join(parts[:-1]) + word + parts[-1] if parts else None


@SHAPE
def list_as_set(text: str, question: str, rng: random.Random) -> str | None:
    parts = _parts(text, question)
    if not parts or "=" in text or len(set(map(compact, parts))) < len(parts):
        return None
    return r"\{" + ", ".join(parts) + r"\}"


@SHAPE
def reversed_set(text: str, question: str, rng: random.Random) -> str | None:
    opening, parts, closing = elements(text)
    if kind(text, question) != "set" or len(parts) < 2 or re.search(r"dots|\||mid|:", text):
        return None
    return f"{opening}{', '.join(reversed([part.strip() for part in parts]))}{closing}"


@SHAPE
def reversed_union(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) != "union" or r"\cap" in body:
        return None
    return r" \cup ".join(part.strip(" .") for part in reversed(split_top(body.rstrip("."), (r"\cup",))))


@SHAPE
def name_and_set(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None:
        return None
    if re.match(r"x\s*\\in(?![a-z])", body):
        return re.sub(r"^x\s*\\in\s*", "", body)
    if kind(text, question) in ("interval", "union") and r"\infty" in body:
        return rng.choice([r"x \in {0}", r"x\in{0}"]).replace("{0}", body)
    return None


@SHAPE
def plus_infinity(text: str, question: str, rng: random.Random) -> str | None:
    if r"+\infty" in text:
        return text.replace(r"+\infty", r"\infty")
    return re.sub(r"(,\s*)\\infty", r"\1+\\infty", text)


def _sum_side(body: str) -> tuple[str, str]:
    """Cut `y = a + b` into `y = ` and the sum; a text without equals sign has nothing before the sum."""
    sides = split_top(body, ("=",))
    return ("=".join(sides[:-1]) + "= ", sides[-1].strip()) if len(sides) == 2 else ("", body)


@SHAPE
def commuted_sum(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) not in ("scalar", "expression", "relation"):
        return None
    before, summed = _sum_side(body)
    terms = signed_terms(summed.rstrip("."))
    return before + joined(rng.choice([terms[::-1], terms[1:] + terms[:1]])) if terms and len(terms) > 1 else None


@SHAPE
def commuted_product(text: str, question: str, rng: random.Random) -> str | None:
    if kind(text, question) not in ("scalar", "expression"):
        return None
    body = compact(shell(text))
    group = r"\((?:[^()]|\([^()]*\))*\)"
    factors = re.fullmatch(rf"({group})({group})", body)
    if factors:
        return factors[2] + factors[1]
    one = re.fullmatch(rf"(-?)(\d+|\\[dt]?frac\{{\d+\}}\{{\d+\}})(\\sqrt\{{[^{{}}]*\}}|\\pi|[a-df-z]|{group})", body)
    if not one:
        return None
    sign = "" if one[3].startswith("(") else rng.choice([r" \cdot ", r"\times "])
    return f"{one[1]}{one[3]}{sign}{one[2]}" if sign or one[2].isdigit() is False else f"{one[1]}{one[3]}\\cdot {one[2]}"


@SHAPE
def common_factor(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) not in ("scalar", "expression"):
        return None
    terms = signed_terms(compact(body))
    if not terms or len(terms) < 2:
        return None
    split = [re.fullmatch(r"(\d+)((?:\\sqrt|\\pi|[a-df-zi(]).*|)", term) for _, term in terms]
    if not all(split):
        return None
    factor = math.gcd(*(int(match[1]) for match in split if match))
    inner = [
        (sign, _coefficient(int(match[1]) // factor, match[2])) for (sign, _), match in zip(terms, split, strict=True) if match
    ]
    return f"{factor}({joined(inner)})" if factor > 1 else None


def _coefficient(number: int, rest: str) -> str:
    return rest if number == 1 and rest else f"{number}{rest}"


@SHAPE
def minus_outside(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) not in ("scalar", "expression"):
        return None
    terms = signed_terms(body)
    if not terms or len(terms) < 2:
        return None
    turned = [("-" if sign == "+" else "+", term) for sign, term in terms]
    return f"-({joined(turned)})"


@SHAPE
def name_before(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) not in _SCALARS or re.search(r"np\.", body):
        return None
    return rng.choice(["x = ", "x=", "n = ", "k=", "y = ", "A = ", "S = "]) + body


@SHAPE
def names_in_list(text: str, question: str, rng: random.Random) -> str | None:
    parts = _parts(text, question)
    if not parts or re.search(r"[a-zA-Z(]", re.sub(r"\\[A-Za-z]+", "", text)):
        return None
    return rng.choice([", ".join(f"x = {part}" for part in parts), f"x = {', '.join(parts)}"])


@SHAPE
def name_removed(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) != "relation" or body.count("=") > 1:
        return None
    match = re.fullmatch(r"[a-zA-Z](?:_\{[^{}]*\})?\s*=\s*(.+)", body, re.DOTALL)
    numeric = match and not re.search(r"[a-zA-Z]", re.sub(r"\\[A-Za-z]+", "", match[1]))
    return match[1] if match and numeric else None


@SHAPE
def swapped_sides(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) != "relation":
        return None
    sides = split_top(body.rstrip("."), ("=",))
    if len(sides) == 2:
        return f"{sides[1].strip()} = {sides[0].strip()}"
    turn = {"<": ">", ">": "<", r"\le": r"\ge", r"\leq": r"\geq", r"\ge": r"\le", r"\geq": r"\leq", r"\geqslant": r"\leqslant"}
    signs = [token for token in tokens(body) if token in turn]
    parts = split_top(body, tuple(turn))
    if not signs or len(parts) != len(signs) + 1:
        return None
    out = parts[-1].strip()
    for sign, part in zip(reversed(signs), reversed(parts[:-1]), strict=True):
        out += f" {turn[sign]} {part.strip()}"
    return out


@SHAPE
def doubled_equation(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) != "relation":
        return None
    sides = split_top(body, ("=",))
    letters = set(re.findall(r"[a-zA-Z]", re.sub(r"\\[A-Za-z]+", "", body)))
    if len(sides) != 2 or not letters <= set("xyz") or len(letters) < 2:
        return None
    zero = sides[1].strip() == "0"
    return f"2({sides[0].strip()}) = " + ("0" if zero else f"2({sides[1].strip()})")


@SHAPE
def moved_to_one_side(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or doubled_equation(text, question, rng) is None:
        return None
    left, right = split_top(body, ("=",))
    return None if right.strip() == "0" else f"{left.strip()} - ({right.strip()}) = 0"


@SHAPE
def other_matrix(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(r"\\begin\{pmatrix\}(.*)\\end\{pmatrix\}", shell(text), re.DOTALL)
    if not match:
        return None
    columns = "c" * (1 + match[1].split(r"\\")[0].count("&"))
    array = rf"\left(\begin{{array}}{{{columns}}}{match[1]}\end{{array}}\right)"
    bracketed = rf"\left[\begin{{matrix}}{match[1]}\end{{matrix}}\right]"
    return rng.choice([rf"\begin{{bmatrix}}{match[1]}\end{{bmatrix}}", array, bracketed])


@SHAPE
def matrix_spacing(text: str, question: str, rng: random.Random) -> str | None:
    if r"\begin" not in text:
        return None
    return rng.choice([re.sub(r"\s*(&|\\\\)\s*", r"\1", text), re.sub(r"\s*(&|\\\\)\s*", r"\n \1 ", text)])


@SHAPE
def matrix_fractions(text: str, question: str, rng: random.Random) -> str | None:
    return re.sub(r"(\d+)/(\d+)", r"\\frac{\1}{\2}", text) if r"\begin" in text else None


@SHAPE
def tuple_spacing(text: str, question: str, rng: random.Random) -> str | None:
    opening, parts, closing = elements(text)
    if kind(text, question) not in ("tuple", "interval") or not opening:
        return None
    comma = rng.choice([",", " , ", r",\ ", r",\;", r", \quad "])
    return opening + comma.join(part.strip() for part in parts) + closing


@SHAPE
def ratio_spacing(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(r"(\d+)\s*:\s*(\d+)", shell(text))
    return rng.choice(["{0} : {1}", r"{0}\colon {1}", r"{0}\,:\,{1}"]).format(*match.groups()) if match else None


@SHAPE
def plain_text(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) not in ("scalar", "expression", "tuple", "interval", "relation", "union"):
        return None
    if re.search(r"[a-z]{2}|,\\!|i\\pi", re.sub(r"\\[A-Za-z]+", "", body)) or r"i\pi" in body:
        return None
    braced = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
    body = re.sub(r"\\(?:left|right)(?![A-Za-z])|\\[,;!: ]", "", re.sub(r"\\(?:sqrt|[dtc]?frac)\s*\d.*", r"\\stop", body))
    for _ in range(4):
        body = re.sub(rf"\\[dtc]?frac\s*{braced}\s*{braced}", r"((\1)/(\2))", body)
        body = re.sub(rf"\\sqrt\s*{braced}", r"sqrt(\1)", body)
        body = re.sub(rf"\^\s*{braced}", r"^(\1)", body)
    star = rng.choice(["*", "", "*"])
    body = re.sub(r"(?<=[\d)])\s*(?=sqrt|\\pi)", star, body)
    words = {r"\\pi": "pi", r"\\infty": rng.choice(["infinity", "oo", "inf"]), r"\\c(?:dot|up)": "*", r"\\times": "*"}
    words |= {r"\\leq?": "<=", r"\\geq?": ">=", r"\\(sin|cos|tan|log|ln)": r"\1", r"\\cup": " U "}
    for name, plain in (words | {r"\\cdot": "*", r"\\cup": " U "}).items():
        body = re.sub(rf"{name}(?![A-Za-z])", plain, body) if name != r"\\c(?:dot|up)" else body
    return None if re.search(r"[\\{}_]", body) else body
