"""The `match` environment: compares an answer with a reference. The reference's field `kind` names an entry of `KINDS`."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import model_validator

from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.envs.contract.schema import Completion, Prompt, Score
from verigym.envs.extraction.methods import strip_thinking
from verigym.envs.match import chess, choice, grids, numeric, sql, text, values
from verigym.envs.match.kind import Kind, Verdict, Where
from verigym.envs.match.kind import MatchReference as Fields
from verigym.envs.match.where import Readings, find_readings

__all__ = ["KINDS", "MatchEnvironment", "MatchOptions", "MatchReference"]

KINDS: dict[str, Kind] = {
    "exact": text.EXACT,
    "normalised": text.NORMALISED,
    "numeric": numeric.NUMERIC,
    "choice": choice.CHOICE,
    "list": values.LIST,
    "json": values.JSON,
    "regex": values.REGEX,
    "sql": sql.SQL,
    "sudoku": grids.SUDOKU,
    "queens": grids.QUEENS,
    "chess": chess.CHESS,
}


class MatchReference(Fields):
    """What an answer is compared with, checked by its kind."""

    @model_validator(mode="after")
    def _checked(self) -> MatchReference:
        kind = KINDS.get(self.kind)
        if kind is None:
            raise UsageError(f"field 'kind': no kind is called {self.kind!r}{did_you_mean(self.kind, KINDS)}")
        defaults = {name: field.get_default() for name, field in Fields.model_fields.items() if name != "kind"}
        unused = [name for name, value in defaults.items() if getattr(self, name) != value and name not in kind.uses]
        if unused:
            raise UsageError(f"field {unused[0]!r}: kind={self.kind!r} does not use it; it reads {sorted(kind.uses)}")
        kind.check(self)
        return self


class MatchOptions(Options):
    """Where answers are looked for."""

    answer_in: tuple[Where, ...] | None = None
    """Where the answer is looked for, in this order: boxed, tag (`<answer>`), fence, label (`Answer:`), all (the whole
    completion). None: the places that the kind lists."""
    skip_thinking: bool = True
    """Whether only the text after the last `</think>` is judged. A completion whose thinking never ends then has no answer."""


class MatchEnvironment(BaseEnvironment[MatchReference, MatchOptions]):
    """Grades by comparison."""

    name = "match"
    version = "7"
    reference_type = MatchReference
    options_type = MatchOptions
    expected_verdicts = ExpectedVerdicts()

    def examples(self) -> Sequence[Prompt]:
        """Return a task of each kind that needs no package of its own."""
        people = "create table person (name text, born int); insert into person values "
        return (
            self.prompt("Which word means both money and a river's side?", kind="exact", answer="bank"),
            self.prompt("Who wrote Faust?", kind="normalised", answer=["Johann Wolfgang von Goethe", "Goethe"]),
            self.prompt("How high is Mont Blanc, in metres?", kind="numeric", answer=4806, tolerance=3),
            self.prompt(
                "Capital of Australia? A) Sydney B) Canberra", kind="choice", answer="B", choices=("Sydney", "Canberra")
            ),
            self.prompt("The first three primes, in order?", kind="list", answer=[2, 3, 5]),
            self.prompt("Describe a fox as JSON.", kind="json", answer={"animal": "fox", "legs": 4}),
            self.prompt(
                "The names of all born after 1900?",
                kind="sql",
                answer="select name from person where born > 1900",
                ordered=False,
                setups=(f"{people} ('Ann', 1890), ('Bob', 1950)", f"{people} ('Eve', 1901), ('Mia', 1900), ('Tom', 1999)"),
            ),
            self.prompt("Place eight queens, a column for each row.", kind="queens", size=8),
            self.prompt(
                "Solve 12.. / 3.1. / .1.3 / ..21", kind="sudoku", puzzle="12.. 3.1. .1.3 ..21", example="1234 3412 2143 4321"
            ),
        )

    def check(self) -> None:
        """Do nothing: most kinds of answer need no package, and a kind that needs one reports its absence when it judges."""

    def gold(self, prompt: Prompt) -> str | None:
        """Return a completion with a right answer, or None for a regex or a Sudoku without an example."""
        reference = self.reference(prompt)
        kind = KINDS[reference.kind]
        answer = kind.gold(reference)
        if answer is None:
            return None
        place = (self.options.answer_in or kind.where)[0]
        forms = {
            "boxed": r"\boxed{%s}",
            "tag": "<answer>%s</answer>",
            "fence": "```\n%s\n```",
            "label": "Answer: %s",
            "all": "%s",
        }
        return forms[place].replace("%s", answer)

    def judge(self, prompt: Prompt, reference: MatchReference, completion: Completion) -> Score:
        """Find the answer, and have its kind compare it."""
        kind = KINDS[reference.kind]
        answering = strip_thinking(completion.text) if self.options.skip_thinking else completion.text
        if answering is None or not answering.strip():
            found = Readings((), "the thinking never ends" if answering is None else "the completion is empty")
        else:
            found = find_readings(answering, self.options.answer_in or kind.where, kind.tags)
        texts, reason = found
        if not any(texts):
            if completion.cut_off:
                return Score.truncated(reason=f"cut off by the token limit: {reason}")
            return Score.no_answer(reason="the answer is empty" if texts else reason)
        if reference.kind == "numeric":
            asked = "\n".join(message.content for message in prompt.messages if message.role == "user")
            texts = (*texts, *numeric.percentages(texts[-1], asked))
        answer, verdict = _judged(kind, reference, texts)
        shown = answer if len(answer) <= 1000 else f"{answer[:997]}..."
        reason = f"{verdict.reason} ({reason})"
        if verdict.limit:
            return Score.limit(answer=shown, reason=reason)
        if verdict.right is None:
            return Score.no_answer(reason=reason)
        return Score.correct(answer=shown, reason=reason) if verdict.right else Score.incorrect(answer=shown, reason=reason)


def _judged(kind: Kind, reference: Fields, texts: Sequence[str]) -> tuple[str, Verdict]:
    """Return the first reading of an answer that is right, or else the last one. One that names a wrong choice is final."""
    for answer in texts:
        verdict = kind.judge(reference, answer)
        if verdict.right or verdict.limit or (reference.choices and verdict.right is False):
            break
    return answer, verdict
