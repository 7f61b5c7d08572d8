"""Comments, strings and names told from code; any text, in linear time."""

import pytest
from cpu_time import within
from hypothesis import given, settings
from lean_texts import HOSTILE, NESTS, repeated

from verigym.envs.lean.lexer import code, position, tokens


def kinds(text):
    return [(token.kind, token.text) for token in tokens(text)]


def words(text):
    return [token.text for token in code(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a -- b\nc", ["a", "c"]),
        ("a --/- b\nc", ["a", "c"]),
        ("a /- b /- c -/ d -/ e", ["a", "e"]),
        ("a /- -- -/ e", ["a", "e"]),
        ("a /-/- b -/ c", ["a", "c"]),
        ("a /-- -- -/ b\n -/ c", ["a", "c"]),
        ("a /--/ b -/ c", ["a", "c"]),
        ("""trace "{'" c""", ["trace", """"{'\"""", "c"]),
        ("a /-- doc -/ e /-! module -/", ["a", "e"]),
        ('"a\nb" c', ['"a\nb"', "c"]),
        (r'"a\"b" c', [r'"a\"b"', "c"]),
        ('"-- no" x /- " -/', ['"-- no"', "x"]),
        ('r"a\\" b', ['r"a\\"', "b"]),
        ('r#"a"b"# c', ['r#"a"b"#', "c"]),
        ('bar"x"', ["bar", '"x"']),
        ("""'"' x '\\'' y '\\x41' '(' """, ["""'"'""", "x", "'\\''", "y", "'\\x41'", "'('"]),
        ("h'.end x' 'a'", ["h'.end", "x'", "'a'"]),
        ("f '' s ∩ g ⁻¹' t", ["f", "''", "s", "∩", "g", "⁻¹'", "t"]),
        ("a[i]'h b", ["a", "[", "i", "]'", "h", "b"]),
        ("«a b».c «x\ny»", ["«a b».c", "«x\ny»"]),
        ("1.5e3 0xff 1..x x.1.2 20!", ["1.5e3", "0xff", "1", "..", "x", "x", ".", "1.2", "20", "!"]),
        ("n! ?a x? αβ₁ ℝ λx", ["n!", "?", "a", "x?", "αβ₁", "ℝ", "λ", "x"]),
        ("x≤y:=z", ["x", "≤", "y", ":=", "z"]),
        ("{x //-1 < x}", ["{", "x", "//", "-", "1", "<", "x", "}"]),
        ("p \\/-q", ["p", "\\/", "-", "q"]),
        ("@[simp] #[1] `x", ["@[", "simp", "]", "#[", "1", "]", "`", "x"]),
    ],
)
def test_code_without_comments(text, expected):
    assert words(text) == expected


def test_interpolated_strings_hold_code():
    assert kinds('s!"a{f {x := "}"}}b" end') == [
        ("ident", "s!"),
        ("string", '"a{'),
        ("ident", "f"),
        ("open", "{"),
        ("ident", "x"),
        ("symbol", ":="),
        ("string", '"}"'),
        ("close", "}"),
        ("string", '}b"'),
        ("ident", "end"),
    ]
    assert words('s!"{s!"{a}"}{b}\\{c" d') == ["s!", '"{', "s!", '"{', "a", '}"', "}{", "b", '}\\{c"', "d"]
    assert words('"{a}" b') == ['"{a}"', "b"]  # a plain string holds none


@pytest.mark.parametrize("text", ["/- a", "/- /- -/", "/--", '"a', '"a\\"', 'r#"a"', "«a", 's!"{a', 's!"{a}'])
def test_what_never_closes_is_one_token_to_the_end(text):
    last = list(tokens("x " + text))[-1]
    assert last.kind == "unclosed" and last.end == len(text) + 2
    assert all(token.kind != "unclosed" for token in list(tokens("x " + text))[:-1])


def test_positions_count_as_lean_does():
    text = "a\nℝ := b"
    assert [position(text, token.start) for token in tokens(text)] == [(1, 0), (2, 0), (2, 2), (2, 5)]


@settings(max_examples=100, deadline=None)
@given(HOSTILE)
def test_tokens_cover_any_text(text):
    place = 0
    for token in tokens(text):
        assert not text[place : token.start].strip(" \t\r\n")
        assert token.text == text[token.start : token.end] and token.end >= token.start >= place
        place = token.end
    assert not text[place:].strip(" \t\r\n")


@pytest.mark.parametrize("piece", NESTS)
def test_time_grows_with_the_length(piece):
    text = repeated(piece)
    for _ in within(0.5):
        assert sum(1 for _ in tokens(text)) > 0
