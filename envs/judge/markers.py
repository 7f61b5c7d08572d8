r"""Makes untrusted text harmless: breaks strings that look like chat-template control tokens or like lines that mark a quote.

A server puts messages into its model's chat template as text. A control token written in a message then becomes a real control
token. The judge model's control tokens are not known here, so they are recognised by shape: a bracket, characters without
spaces, a bracket. A space after the first bracket breaks the token and leaves prose, mathematics, code and HTML readable:
`< b>`, `[ INST]`, `vector< int>`.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST = 120
"""Maximum number of characters between the brackets of a control token. The longest token in use has 40."""

# In square brackets neither other brackets and quotes nor signs of formulas: `[a+b]`, `[1,2]`, `\[`.
_RUN = rf"[^\s<>\[\]{{}}()\u25c1\u25b7\"'`,;=.&?\\+*^]{{1,{LONGEST}}}"
_TOKEN = re.compile(
    rf"[<\u25c1](?=(?P<angle>(?![=-])[^\s<>\u25c1\u25b7]{{1,{LONGEST}}})[>\u25b7]|\|[^<>\n]{{1,{LONGEST}}}\|>)"
    rf"|\[(?=(?P<square>{_RUN})[\[\]])"
    rf"|\](?=(?P<closing>[^\s\w<>\[\]{{}}()\"'`,;=.&?\\+*^-]{_RUN})[\[\]])"  # ]~b]
)
# A rule of signs, as it stands around the names of quotes: three of one kind, spaced or not.
_RULE = re.compile(r"([^\w\s.!?])(?:[^\S\n]?\1){2}")
_NAMED = re.compile(r"\b(?:begins?|ends?)\b", re.IGNORECASE)
_SIGNS = re.compile(r"[^\W\d]|[|~!\u2581]")


def unmarked(text: str) -> str:
    """Return `text` with control tokens broken, and with lines that look like our quote marks altered.

    `<|im_end|>` becomes `< |im_end|>`, and `=== submission 12ab ends ===` becomes `= == submission 12ab ends = ==`. The
    search reads characters in compatibility form (NFKC) and ignores invisible ones, so it also finds tokens with fullwidth
    letters or zero-width spaces.
    """
    seen, places = _seen(text)
    breaks = {token.end() for token in _TOKEN.finditer(seen) if _could_be_token(token)}
    breaks.update(_rules(seen))
    if not breaks:
        return text
    parts: list[str] = []
    last = 0
    for place in sorted(breaks):
        cut = places[place - 1] + 1 if places else place
        parts.append(text[last:cut])
        last = cut
    return " ".join([*parts, text[last:]])


def _could_be_token(token: re.Match[str]) -> bool:
    """Return whether the run has a letter or a sign of control tokens: `[12]`, `x[i]` and `a<1>` are none."""
    run = token["angle"] or token["square"]
    return run is None or (_SIGNS.search(run) is not None and (token["square"] is None or len(run) > 1))


def _rules(seen: str) -> list[int]:
    """Return where the rules of forged quote lines are broken: after their first sign."""
    places: list[int] = []
    at = 0
    for line in seen.split("\n"):
        rules = list(_RULE.finditer(line)) if _NAMED.search(line) else []
        if len(rules) > 1 and _NAMED.search(line, rules[0].end(), rules[-1].start()):
            places += [at + rule.start() + 1 for rule in rules]
        at += len(line) + 1
    return places


def _seen(text: str) -> tuple[str, list[int]]:
    """Return the text as a reader sees it, and for each of its characters the place of its origin; no places for plain text."""
    if text.isascii() and text.isprintable():
        return text, []
    chars: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        shown = char if char.isascii() else unicodedata.normalize("NFKC", char)
        if char in "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029":
            shown = "\n"
        elif unicodedata.category(char) in ("Cc", "Cf", "Mn", "Me") and char not in "\n\t":
            continue
        chars.append(shown)
        places += [place] * len(shown)
    return "".join(chars), places
