"""No instruction takes long over a text made to keep it busy."""

import pytest
from cpu_time import within

from verigym.envs.constraints.echo import is_echo
from verigym.envs.constraints.environment import ConstraintsEnvironment
from verigym.envs.constraints.table import known

# One unit of each text; the text is as many as fill the size. The last part is what a match would need and never finds in time.
UNITS = {
    "letters": "a",
    "spaces": " ",
    "lines": "\n",
    "brackets": "[",
    "angles": "<",
    "stars": "*",
    "lone stars": "*\n",
    "quotation marks": "\"'",
    "marks": "!",
    "dots and spaces": ". ",
    "dots": "a.",
    "shortened": "n't'",
    "CSV": '"!',
    "questions": "Question 1",
    "capitals": "A",
    "sentences": "We go on. ",
}


def slowest(rows, text, bound_s):
    """Return the instructions that take more CPU time than `bound_s` over the text."""
    given = {row["id"]: row["kwargs"] for row in rows}
    late = []
    for id, constraint in known().items():
        if constraint.missing:
            continue
        arguments = constraint.validate(given[id], "here")
        constraint.check(text[:1000], **arguments)  # loads what it needs
        try:
            for _ in within(bound_s):
                constraint.check(text, **arguments)
        except AssertionError as slow:
            late.append((id, str(slow)))
    return late


@pytest.mark.usefixtures("extra")
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_fifteen_thousand_characters(rows, unit):
    assert slowest(rows, unit * (15_000 // len(unit)) + "x", bound_s=0.5) == []


@pytest.mark.slow
@pytest.mark.usefixtures("extra")
@pytest.mark.parametrize("name", ["lines", "brackets"])
def test_a_million_characters(rows, name):
    assert slowest(rows, UNITS[name] * 1_000_000 + "x", bound_s=20.0) == []


def test_finding_an_echo():
    env = ConstraintsEnvironment()
    text = "a b " * 80_000
    prompt = env.prompt(text, instruction_id_list=["punctuation:no_comma"], kwargs=[{}])
    for _ in within(6):
        assert is_echo(prompt, text + text)
        assert not is_echo(prompt, "b " * 160_000)
