"""Checks of IFEval's instructions on the content of a response: keywords, letters, language, case, required parts, repetition.

Definitions: Zhou et al., "Instruction-Following Evaluation for Large Language Models" (arXiv 2311.07911) and its checkers.
"""

from __future__ import annotations

import re

from verigym.envs.constraints.arguments import Count, Language, Letter, Relation, Text, Texts
from verigym.envs.constraints.matching import count, has_word, holds
from verigym.envs.constraints.table import constraint
from verigym.envs.constraints.words import tokens
from verigym.envs.language.identify import identify

_POSTSCRIPTS = {"P.P.S": re.compile(r"p\.\s?p\.\s?s"), "P.S.": re.compile(r"p\.\s?s\.")}


@constraint("keywords:existence", "Each of `keywords` occurs, in any case, inside a word too.")
def existence(text: str, *, keywords: Texts) -> bool:
    """Check for all keywords."""
    return all(count(keyword, text) for keyword in keywords)


@constraint(
    "keywords:frequency", "`keyword` occurs `at least` or `less than` `frequency` times, in any case, inside words too."
)
def frequency(text: str, *, keyword: Text, frequency: Count, relation: Relation) -> bool:
    """Count a keyword."""
    return holds(count(keyword, text), relation, frequency)


@constraint("keywords:forbidden_words", "None of `forbidden_words` occurs as a whole word, in any case.")
def forbidden_words(text: str, *, forbidden_words: Texts) -> bool:
    """Check for words that must not occur."""
    return not any(has_word(word, text) for word in forbidden_words)


@constraint(
    "keywords:letter_frequency", "The character `letter` occurs `at least` or `less than` `let_frequency` times, in any case."
)
def letter_frequency(text: str, *, letter: Letter, let_frequency: Count, let_relation: Relation) -> bool:
    """Count a letter."""
    return holds(text.lower().count(letter.lower()), let_relation, let_frequency)


@constraint(
    "language:response_language", "The text is in the language with the ISO 639-1 code `language`.", needs=("py3langid",)
)
def response_language(text: str, *, language: Language) -> bool:
    """Identify the language."""
    return identify(text)[0] == language


@constraint("change_case:english_capital", "The text is English and has no small letter.", needs=("py3langid",))
def english_capital(text: str) -> bool:
    """Check case and language."""
    # in capitals every word looks foreign to the identifier
    return text.isupper() and identify(text.lower())[0] == "en"


@constraint("change_case:english_lowercase", "The text is English and has no capital letter.", needs=("py3langid",))
def english_lowercase(text: str) -> bool:
    """Check case and language."""
    return text.islower() and identify(text)[0] == "en"


@constraint(
    "change_case:capital_word_frequency",
    '`at least` or `less than` `capital_frequency` tokens are in capitals only; a hyphenated word is one, "I" counts.',
)
def capital_word_frequency(text: str, *, capital_frequency: Count, capital_relation: Relation) -> bool:
    """Count words in capitals."""
    return holds(sum(token.isupper() for token in tokens(text)), capital_relation, capital_frequency)


@constraint(
    "detectable_content:number_placeholders", "At least `num_placeholders` parts stand in square brackets, each within a line."
)
def number_placeholders(text: str, *, num_placeholders: Count) -> bool:
    """Count placeholders."""
    found = 0
    for line in text.split("\n"):
        opened = line.find("[")
        while opened >= 0:
            closed = line.find("]", opened + 1)
            if closed < 0:
                break
            found += 1
            opened = line.find("[", closed + 1)
    return found >= num_placeholders


@constraint(
    "detectable_content:postscript", "The marker of a postscript occurs, in any case; P.S. and P.P.S may have spaces in them."
)
def postscript(text: str, *, postscript_marker: Text) -> bool:
    """Look for a postscript."""
    marker = postscript_marker.strip()
    pattern = _POSTSCRIPTS.get(marker)
    return pattern.search(text.lower()) is not None if pattern else marker.lower() in text.lower()


@constraint("combination:repeat_prompt", "The text begins with `prompt_to_repeat`, in any case.")
def repeat_prompt(text: str, *, prompt_to_repeat: Text) -> bool:
    """Return whether `text` begins with `prompt_to_repeat`, in any case.

    This check accepts a response that ends there. With the option `strict_echo`, a response that only repeats the prompt gets
    the floor.
    """
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


@constraint("combination:two_responses", "Two different texts stand between `******`; it may also stand at either end.")
def two_responses(text: str) -> bool:
    """Split into responses."""
    parts = [part.strip() for part in text.split("******")]
    filled = [part for part in parts if part]
    return len(filled) == 2 and all(parts[1:-1]) and filled[0] != filled[1]
