"""Sentences, tokens and echoes."""

import pytest

from verigym.envs.constraints.echo import is_echo
from verigym.envs.constraints.environment import ConstraintsEnvironment
from verigym.envs.constraints.sentences import sentences
from verigym.envs.constraints.words import count_words, tokens
from verigym.envs.contract.schema import Message


@pytest.mark.parametrize(
    "parts",
    [
        [],
        ["No mark at the end"],
        ["One.", "Two!", "Three?"],
        ["Dr. Smith met Mrs. Jones at 5 p.m. on Oct. 3 in St. Louis.", "They talked."],
        ["The U.S. team won.", "It cost 3.50 dollars."],
        ["He works for Acme Inc. in Ohio.", "She does not."],
        ["He works for Acme Inc.", "The firm is old."],
        ["J. R. Smith wrote it.", "So did we."],
        ["He and I.", "The others left."],
        ["Wait... and see.", "Yes."],
        ["Wait...", "The door opens."],
        ["What?!", "Really?"],
        ['"Go home."', "She went."],
        ["(It rained.)", "We stayed."],
        ["\u201cGo.\u201d", "She went."],
        ["Look at http://example.com/a.html now.", "Done."],
        ["Version 2.0 is out.", "Use it."],
        ["See e.g.", "the list."],
        ["1.", "Buy milk\n2.", "Buy bread"],
        ["Yahoo!", "is a firm."],
        ["one.two three"],
        ["Ph.D. students met.", "They ate."],
    ],
    ids=lambda parts: " | ".join(parts),
)
def test_sentences(parts):
    assert sentences(" ".join(parts)) == parts
    assert sentences(f"\n {'  '.join(parts)}\n") == parts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Don't go.", ["Do", "n't", "go", "."]),
        ("I'll say it's John's.", ["I", "'ll", "say", "it", "'s", "John", "'s", "."]),
        ("We cannot, they're gonna", ["We", "can", "not", ",", "they", "'re", "gon", "na"]),
        ("The U.S. won.", ["The", "U.S.", "won", "."]),
        ("$3.50, 1,000 and 5:30!", ["$", "3.50", ",", "1,000", "and", "5:30", "!"]),
        ("well-known--yes (no) [x]", ["well-known", "--", "yes", "(", "no", ")", "[", "x", "]"]),
        ('"Quoted" text... more', ['"', "Quoted", '"', "text", "...", "more"]),
        ("the dogs' 'house'", ["the", "dogs", "'", "'", "house", "'"]),
        ("a\u2014b \u201cc\u201d *d*", ["a", "\u2014", "b", "\u201c", "c", "\u201d", "*", "d", "*"]),
    ],
)
def test_tokens(text, expected):
    assert tokens(text) == expected


def test_words_are_runs_of_letters():
    assert count_words("Don't well-known a_b 3.5 caf\u00e9 \u4e09") == 9


ENV = ConstraintsEnvironment()
TEXT = "Write about a grey cat.\nUse no comma at all, and wrap the title in double angular brackets like <<this>>.\nThank you!"


@pytest.mark.parametrize(
    ("text", "echo"),
    [
        (TEXT, True),
        (TEXT.upper(), True),
        (f"> {TEXT.replace(' ', '  ')} **", True),
        (f"{TEXT}\n\n{TEXT}", True),
        (TEXT.partition("\n")[2], True),
        (TEXT.rpartition("\n")[0], True),
        (f"{TEXT}\n{TEXT[: len(TEXT) * 2 // 3]}", True),
        (f"{TEXT}\nThe cat sleeps.", False),
        ("<<this>>", False),
        ("Write about a grey cat.", False),
        ("A grey cat sleeps all day.", False),
        ("", False),
        ("!!!", False),
    ],
)
def test_echoes(text, echo):
    prompt = ENV.prompt(TEXT, instruction_id_list=["detectable_format:title"], kwargs=[{}])
    assert is_echo(prompt, text) is echo


def test_an_echo_of_one_of_several_messages():
    messages = [Message(role="system", content="Be brief and kind."), Message(role="user", content="Name a <<river>>.")]
    prompt = ENV.prompt(messages, instruction_id_list=["detectable_format:title"], kwargs=[{}])
    for text in ("Name a <<river>>.", "Be brief and kind. Name a <<river>>.", "Be brief and kind."):
        assert is_echo(prompt, text)
    assert not is_echo(prompt, "<<Rhine>>")


def test_a_request_repeated_and_not_answered():
    request = "Write a haiku about snow."
    prompt = ENV.prompt(
        f"{request} First repeat the request word for word, then answer.",
        instruction_id_list=["combination:repeat_prompt"],
        kwargs=[{"prompt_to_repeat": request}],
    )
    lax = ConstraintsEnvironment(strict_echo=False)
    for text, strict, reference in (
        (request, 0.0, 1.0),
        (f"{request}\n{request}", 0.0, 1.0),
        (prompt.text, 0.0, 1.0),
        (f"{request}\nWhite on the branches", 1.0, 1.0),
        ("White on the branches", 0.0, 0.0),
    ):
        assert (ENV.score(prompt, text).reward, lax.score(prompt, text).reward) == (strict, reference)


def test_a_response_that_should_be_a_part_of_the_prompt_is_no_echo():
    request = "The quick brown fox jumps over the lazy dog today."
    arguments = {"prompt_to_repeat": request, "n_start": 0, "n_end": 8}
    prompt = ENV.prompt(f"{request} Copy words 0 to 8!", instruction_id_list=["repeat:repeat_span"], kwargs=[arguments])
    assert ENV.score(prompt, "The quick brown fox jumps over the lazy dog").reward == 1.0
    assert ENV.score(prompt, prompt.text).reward == 0.0
