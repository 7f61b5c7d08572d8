import pytest
from cpu_time import within

from verigym.envs.process.steps import Ends, Splitting, split

HOSTILE = [
    "\n",
    "\n \n",
    " \n",
    ".",
    ". ",
    '?!"',
    "1. ",
    "\n1.",
    "\n> ",
    "\nStep ",
    "a.b. ",
    "\\boxed{",
    "answer ",
    "。",
    "\u00a0",
]


def parts(text: str, how: Splitting | Ends = "paragraphs", *, answer: bool = True) -> list[str]:
    return [span.of(text) for span in split(text, how, answer=answer)]


@pytest.mark.parametrize(
    ("how", "text", "expected"),
    [
        ("paragraphs", "a\nb\n\nc\n \t\n\nd", ["a\nb", "c", "d"]),
        ("paragraphs", "\n\n a\n\n", ["a"]),
        ("paragraphs", " \n\n ", []),
        ("lines", "a\n\n b\r\nc", ["a", "b", "c"]),
        ("numbered", "We go.\nStep 1: a\nmore\n**Step 2** b", ["We go.", "Step 1: a\nmore", "**Step 2** b"]),
        ("numbered", "1. a\n2) b\n(3) c\n4.5 is no step\n5", ["1. a", "2) b", "(3) c\n4.5 is no step\n5"]),
        ("sentences", "It is 3.5 m. So it fits! Does it? Yes.", ["It is 3.5 m.", "So it fits!", "Does it?", "Yes."]),
        ("sentences", "See e.g. Fig. 2 by Dr. A. Smith. Then go.", ["See e.g. Fig. 2 by Dr. A. Smith.", "Then go."]),
        ("sentences", "1. First this. 2 + 2 is 4. Done", ["1. First this.", "2 + 2 is 4.", "Done"]),
        ("sentences", "他有三个。他又买了两个！对吗？对", ["他有三个。", "他又买了两个！", "对吗？", "对"]),
        ("sentences", 'He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ((",", "</think>"), "<think>7+3=10,2+4=6</think>\\boxed{60}", ["<think>7+3=10,", "2+4=6</think>", "\\boxed{60}"]),
        (("*", "**"), "a** b* c", ["a**", "b*", "c"]),
    ],
)
def test_where_steps_end(how: Splitting | Ends, text: str, expected: list[str]) -> None:
    assert parts(text, how) == expected


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\n\nThe answer is 4.", ["a"]),
        ("a\n\nSo \\boxed{4}", ["a"]),
        ("a\n\n#### 4", ["a"]),
        ("a\n\n**Answer:** 4", ["a"]),
        ("The answer is 4.\n\nwait", ["The answer is 4.", "wait"]),
        ("\\boxed{4}", []),
    ],
)
def test_the_final_answer_is_left_out_on_demand(text: str, kept: list[str]) -> None:
    assert parts(text, answer=False) == kept


@pytest.mark.parametrize("how", ["paragraphs", "lines", "numbered", "sentences"])
@pytest.mark.parametrize("unit", HOSTILE)
def test_spans_cover_the_text_in_linear_time(how: Splitting, unit: str) -> None:
    text = "a " + unit * (25_000 // len(unit)) + " b"
    for _ in within(1):  # a quadratic reading takes several
        spans = split(text, how)
    assert spans[0].start == 0 and spans[-1].end == len(text)
    assert all(one.end == other.start for one, other in zip(spans, spans[1:], strict=False))
    assert all(span.of(text) for span in spans)
