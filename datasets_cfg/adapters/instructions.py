"""The IFEval-like part of Tulu 3's RLVR data. Each row has one constraint, named by its authors' checking function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from verigym.datasets_cfg.adapters.base import AdaptedRow, Adapter, RawRow, parse_object, text_at
from verigym.datasets_cfg.fields import FieldProblem, find
from verigym.envs.contract.schema import sha256_hex

Arguments = Mapping[str, Any]


def _relation(of: Arguments, number: str, relation: str) -> Arguments:
    """Say "at least N" or "at most N" as IFEval does, whose other word is "less than"."""
    quantifier, count = of.get("quantifier"), of.get("N")
    if quantifier not in ("at least", "at most", "less than") or not isinstance(count, int):
        raise FieldProblem("ground_truth", f"asks for {quantifier!r} {count!r}, which no instruction of IFEval says")
    least = quantifier == "at least"
    bound = count + 1 if quantifier == "at most" else count
    return {number: bound, relation: "at least" if least else "less than"}


def _same(**names: str) -> Callable[[Arguments], Arguments]:
    return lambda of: {ours: of[theirs] for ours, theirs in names.items()}


# What is missing here (an exact count of a word or letter, a choice of one's own) IFEval has no instruction for.
_FUNCTIONS: Mapping[str, tuple[str, Callable[[Arguments], Arguments]]] = {
    "verify_keywords": ("keywords:existence", _same(keywords="keyword_list")),
    "validate_forbidden_words": ("keywords:forbidden_words", _same(forbidden_words="forbidden_words")),
    "validate_response_language": ("language:response_language", _same(language="language")),
    "verify_paragraph_count": ("length_constraints:number_paragraphs", _same(num_paragraphs="N")),
    "validate_word_constraint": ("length_constraints:number_words", lambda of: _relation(of, "num_words", "relation")),
    "verify_sentence_constraint": (
        "length_constraints:number_sentences",
        lambda of: _relation(of, "num_sentences", "relation"),
    ),
    "validate_paragraphs": (
        "length_constraints:nth_paragraph_first_word",
        _same(num_paragraphs="N", nth_paragraph="i", first_word="first_word"),
    ),
    "verify_postscript": ("detectable_content:postscript", _same(postscript_marker="postscript_marker")),
    "validate_placeholders": ("detectable_content:number_placeholders", _same(num_placeholders="N")),
    "verify_bullet_points": ("detectable_format:number_bullet_lists", _same(num_bullets="N")),
    "validate_title": ("detectable_format:title", _same()),
    "validate_highlighted_sections": ("detectable_format:number_highlighted_sections", _same(num_highlights="N")),
    "validate_sections": (
        "detectable_format:multiple_sections",
        _same(section_spliter="section_splitter", num_sections="N"),
    ),
    "validate_json_format": ("detectable_format:json_format", _same()),
    "validate_repeat_prompt": ("combination:repeat_prompt", _same(prompt_to_repeat="original_prompt")),
    "validate_two_responses": ("combination:two_responses", _same()),
    "validate_uppercase": ("change_case:english_capital", _same()),
    "validate_lowercase": ("change_case:english_lowercase", _same()),
    "validate_frequency_capital_words": (
        "change_case:capital_word_frequency",
        lambda of: _relation(of, "capital_frequency", "capital_relation"),
    ),
    "validate_end": ("startend:end_checker", _same(end_phrase="end_phrase")),
    "validate_quotation": ("startend:quotation", _same()),
    "validate_no_commas": ("punctuation:no_comma", _same()),
}


def rlvr_ifeval(row: RawRow, language: str) -> AdaptedRow:
    """Return the task in `row`, a row of RLVR-IFeval.

    `ground_truth` is JSON with func_name and its arguments; the request is the last message.
    """
    asked = parse_object(row["ground_truth"], "ground_truth")
    name = text_at({"ground_truth": asked}, "ground_truth.func_name")
    if name not in _FUNCTIONS:
        raise FieldProblem("ground_truth", f"names {name!r}, for which IFEval has no instruction")
    instruction, arguments = _FUNCTIONS[name]
    try:
        kwargs = dict(arguments(asked))
    except KeyError as missing:
        raise FieldProblem("ground_truth", f"gives {name} no {missing}") from None
    request = find(row["messages"], str(len(row["messages"]) - 1))
    text = text_at({"messages": request}, "messages.content")
    reference = {"instruction_id_list": [instruction], "kwargs": [kwargs]}
    return AdaptedRow(reference, sha256_hex(text)[:12], {"request": text})


RLVR_IFEVAL = Adapter(
    rlvr_ifeval, {"messages": "list", "ground_truth": "string"}, gold="ground_truth", prompt_texts=("request",)
)
