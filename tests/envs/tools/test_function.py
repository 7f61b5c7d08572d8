"""`@tool` makes a tool of a typed function, or says what it lacks."""

from typing import Any, Literal

import pytest

from verigym import UsageError, tool


@tool
def lookup(word: str, limit: int = 3, kind: Literal["noun", "verb"] = "noun") -> list[str]:
    """Find a word in the glossary."""
    return [f"{word} {kind}"] * limit


def test_it_is_described_by_its_function() -> None:
    assert lookup.spec.name == "lookup"
    assert lookup.spec.description == "Find a word in the glossary."
    parameters: Any = lookup.spec.parameters
    assert parameters["required"] == ["word"]
    assert parameters["additionalProperties"] is False
    assert {name: field["type"] for name, field in parameters["properties"].items()} == {
        "word": "string",
        "limit": "integer",
        "kind": "string",
    }
    assert lookup.spec.for_template()["function"]["name"] == "lookup"


def test_it_is_still_the_function() -> None:
    assert lookup("a", limit=1) == ["a noun"]


def test_a_result_that_is_no_text_is_json() -> None:
    assert lookup.open("0").call({"word": "a", "limit": 2}) == '["a noun","a noun"]'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "'word' is missing"),
        ({"word": 3}, "word"),
        ({"word": "a", "limit": "many"}, "limit"),
        ({"word": "a", "kind": "adverb"}, "kind"),
        ({"word": "a", "limt": 3}, "limt"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], words: str) -> None:
    assert words in lookup.misfit(arguments)


def test_another_name() -> None:
    @tool(name="find")
    def lookup_(word: str) -> str:
        """Find."""
        return word

    assert lookup_.spec.name == "find"


def test_other_code_is_another_tool() -> None:
    @tool(name="f")
    def one(word: str) -> str:
        """Find."""
        return word

    @tool(name="f")
    def other(word: str) -> str:
        """Find."""
        return word + word

    assert one.spec == other.spec
    assert one.identity != other.identity


def undescribed(word: str) -> str:
    return word


def untyped(word) -> str:  # type: ignore[no-untyped-def]
    """Find."""
    return str(word)


def starred(*words: str) -> str:
    """Find."""
    return "".join(words)


def strange(word: pytest.Item) -> str:
    """Find."""
    return str(word)


@pytest.mark.parametrize(
    ("function", "words"),
    [(undescribed, "no docstring"), (untyped, "'word' has no type"), (starred, r"\*words"), (strange, "no schema")],
)
def test_what_a_function_lacks(function: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tool(function)
