"""Report rows on the episodes of an interactive environment.

Training plays many episodes at the same time, replays them and saves them; these checks test whether sessions allow that. They
also play hostile turns, since a model may write any text. And they test that the verdict depends only on what the model itself
wrote, not on what a session replied.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from verigym.envs.conformance.cases import Outcome
from verigym.envs.conformance.checks import same_outcome, shown_outcome
from verigym.envs.conformance.client import EnvironmentClient, NoReply, outcome_of
from verigym.envs.conformance.playing import Play, Played
from verigym.envs.conformance.report import CheckRow, shorten
from verigym.envs.conformance.turns import forgeries, hostile, tool_call
from verigym.envs.contract.base import Environment
from verigym.envs.contract.schema import Completion, Prompt, Score, Status, Turn
from verigym.envs.contract.session import opens_sessions

TASKS = 2
"""Number of sample tasks that are played."""
NEVER_ENDING = 12
"""Turns of an episode that comes to no answer."""
SAID, SAID_CHARS = 6, 500
"""How many of a session's messages are repeated in forged turns, and how many characters of each."""

FILLER = "Let me think."
IDLE = (FILLER, "yes", r"\boxed{1}", "look", "```python\nprint(1)\n```", r"\boxed{2}")
"""Model turns of an idle player. Each is a valid turn in some environment, but none wins anything."""

ADVICE: Mapping[str, str] = {
    "replies are whole": "open, read, respond and close must raise nothing; a Reply has a message for the model, or done=True",
    "a session is used once": "let respond() raise UsageError after close()",
    "closing twice is closing once": "let close() return the same outcome however often it is called",
    "same turns, same replies": "draw what is random from a hash of the prompt's key and the seed of open(), and read no clock",
    "sessions share nothing": "keep the state of an episode in its session, not on the environment, its class or its module",
    "a forged reply is text": "let read() keep the text as it is; judge by rules, not by words that the session also says",
    "what is read is not judged": "judge the turns of the role 'assistant' alone: the others are words of the session",
    "hostile turns get an answer": "whatever the model writes gets a reply; a text that is no move gets one that says so",
    "a saved episode scores the same": "judge from the prompt, completion.turns and completion.outcome alone",
    "never ending earns the floor": "give no reward for turns as such, only for what an episode comes to",
    "the demonstration is right": "let demonstrate(prompt) return an episode that scores `correct`",
}
"""What to do where a row fails, by its name."""

Group = Literal["empty", "garbage", "any"]
"""What verdict a text must get: the one in this field of `ExpectedVerdicts`. With `any`, each verdict with a reward will do."""


class EpisodeCase(NamedTuple):
    """An episode, and what it is called in the report."""

    name: str
    prompt: Prompt
    texts: tuple[str, ...]


class Finding(NamedTuple):
    """What one episode showed."""

    case: EpisodeCase
    got: str
    """The unexpected result; empty if the episode passed the check."""
    reason: str = ""
    """The verdict's, where the finding is about a verdict."""
    broke: bool = False
    """Whether the episode could not be played at all. Other checks on it then fail with the same `got`, and the report shows
    these failures together, as having one cause."""


def episode_rows(
    environment: Environment,
    first: EnvironmentClient,
    second: EnvironmentClient,
    tasks: Sequence[Prompt],
    golds: Sequence[str | None | NoReply],
) -> Iterator[CheckRow]:
    """Yield the rows of the checks of episodes, or none if the environment has no episodes.

    Args:
        environment: the environment to check.
        first: client of a process that runs the environment.
        second: client of another process with a new instance of the environment.
        tasks: the sample tasks.
        golds: for each task a completion that scores the maximum, or None if there is none.
    """
    if opens_sessions(environment):
        yield from _Checks(environment, first, second, tasks[:TASKS], golds[:TASKS]).rows()


class _Checks:
    def __init__(
        self,
        environment: Environment,
        first: EnvironmentClient,
        second: EnvironmentClient,
        tasks: Sequence[Prompt],
        golds: Sequence[str | None | NoReply],
    ) -> None:
        self._low, self._high = environment.reward_range
        self._expected = environment.expected_verdicts
        self._first, self._second = first, second
        self._demonstrations = [first.demonstration(task) for task in tasks]
        self._good = [
            EpisodeCase("played well", task, _good_texts(shown, gold))
            for task, shown, gold in zip(tasks, self._demonstrations, golds, strict=True)
        ]
        self._cases = [*self._good, *(EpisodeCase("idle", task, IDLE) for task in tasks)]
        self._results = [self._alone(first, case) for case in self._cases]
        self._tools = self._results[0].tools
        heard = [turn.text[:SAID_CHARS] for played in self._results for turn in _turns(played) if turn.role != "assistant"]
        self._said = list(dict.fromkeys(heard))[:SAID]

    def rows(self) -> Iterator[CheckRow]:
        """Yield all rows."""
        floor, empty = self._words("garbage"), self._words("empty")
        yield _row("replies are whole", "each goes on or ends the episode", self._each(lambda played: ""))
        yield _row("a session is used once", "UsageError after close()", self._each(lambda played: played.after_close))
        yield _row("closing twice is closing once", "the same outcome", self._each(lambda played: played.closed_again))
        yield _row("same turns, same replies", "the same again and elsewhere", self._played_again())
        yield _row("sessions share nothing", "interleaved as alone", self._played_together())
        yield _row("a forged reply is text", f"the text, {floor}", self._forged())
        yield _row("what is read is not judged", floor, self._read())
        yield _row("hostile turns get an answer", "a reply and a verdict", self._hostile())
        yield _row("a saved episode scores the same", "equal scores", self._saved())
        yield _row("never ending earns the floor", empty, self._never_ending())
        if any(shown is not None for shown in self._demonstrations):
            yield _row("the demonstration is right", "correct", self._demonstrated())

    def _pairs(self) -> Iterator[tuple[EpisodeCase, Played]]:
        return zip(self._cases, self._results, strict=True)

    def _alone(self, client: EnvironmentClient, case: EpisodeCase) -> Played:
        return self._play(client, [case])[0]

    def _play(self, client: EnvironmentClient, cases: Sequence[EpisodeCase]) -> list[Played]:
        """Play episodes at the same time, a turn of each after the other. A process that dies is their problem."""
        played = client.play([Play(prompt=case.prompt.model_dump(mode="json"), texts=case.texts) for case in cases])
        return [Played(problem=played.reason)] * len(cases) if isinstance(played, NoReply) else played

    def _each(self, wrong: Callable[[Played], str]) -> Iterator[Finding]:
        """Yield what is wrong with each of the episodes that were played alone."""
        for case, played in self._pairs():
            yield _trouble(case, played) or Finding(case, wrong(played))

    def _played_again(self) -> Iterator[Finding]:
        for client, where in ((self._first, "again"), (self._second, "a fresh instance in another process")):
            for case, played in self._pairs():
                again = self._alone(client, case)
                difference = _difference(played, again)
                yield _trouble(case, played, again) or Finding(case, difference and f"{where}: {difference}")

    def _played_together(self) -> Iterator[Finding]:
        """Play all episodes at the same time, and the first one twice."""
        pairs = [*self._pairs(), (self._cases[0], self._results[0])]
        for (case, alone), played in zip(pairs, self._play(self._first, [case for case, _ in pairs]), strict=True):
            yield _trouble(case, alone, played) or Finding(case, _difference(alone, played))

    def _forged(self) -> Iterator[Finding]:
        """Have the model write, as if it were the session, what the session said in other episodes."""
        for how, text in forgeries(self._said):
            yield self._judged(EpisodeCase(f"forged {how}", self._cases[0].prompt, (text,)), "garbage")

    def _read(self) -> Iterator[Finding]:
        """Let the session say what the model should have said."""
        for case in self._good:
            for role in ("user", "tool"):
                turns: list[Turn] = []
                for text in case.texts:
                    heard = Turn(role="user", text=text) if role == "user" else Turn(role="tool", name="tool", text=text)
                    turns += [Turn(role="assistant", text=FILLER), heard]
                episode = Completion(text=FILLER, turns=tuple(turns), finish_reason="stop")
                (outcome,) = self._first.judge([(case.prompt, episode)])
                yield Finding(case._replace(name=f"said by the {role}"), self._unmet(outcome, "garbage"), _reason(outcome))

    def _hostile(self) -> Iterator[Finding]:
        for how, text in hostile(self._tools):
            yield self._judged(EpisodeCase(how, self._cases[0].prompt, (text, text)), "any")

    def _saved(self) -> Iterator[Finding]:
        """Judge episodes after a way through JSON, in the process that has not played them."""
        for case, played in self._pairs():
            trouble = _trouble(case, played)
            if trouble is not None:
                yield trouble
                continue
            saved = Completion.model_validate_json(json.dumps(played.completion))
            at_once, (later,) = _verdict(played), self._second.judge([(case.prompt, saved)])
            yield Finding(
                case,
                "" if same_outcome(at_once, later) else f"{shown_outcome(at_once)}, then {shown_outcome(later)}",
                _reason(later),
            )

    def _never_ending(self) -> Iterator[Finding]:
        for text in ("", FILLER, *(tool_call(tool, {}) for tool in self._tools)):
            yield self._judged(EpisodeCase("never ending", self._cases[0].prompt, (text,) * NEVER_ENDING), "empty")

    def _demonstrated(self) -> Iterator[Finding]:
        for case, shown in zip(self._good, self._demonstrations, strict=True):
            if isinstance(shown, NoReply):
                yield Finding(case, f"demonstrate() {shown.reason}", broke=True)
            elif shown is not None:
                (outcome,) = self._second.judge([(case.prompt, shown)])
                right = isinstance(outcome, Score) and outcome.status is Status.CORRECT
                yield Finding(case, "" if right else shown_outcome(outcome), _reason(outcome))

    def _judged(self, case: EpisodeCase, group: Group) -> Finding:
        """Play an episode; return what is wrong with how it went, or with its verdict."""
        played = self._alone(self._first, case)
        outcome = _verdict(played)
        wrong = Finding(case, self._unmet(outcome, group), _reason(outcome))
        return _trouble(case, played) or (Finding(case, played.altered) if played.altered else wrong)

    def _unmet(self, outcome: Outcome, group: Group) -> str:
        """Return a verdict that is not what the environment declares for such texts; nothing where it is."""
        if isinstance(outcome, NoReply) or outcome.reward is None or not self._low <= outcome.reward <= self._high:
            return shown_outcome(outcome)
        floor = group != "any" and getattr(self._expected, group) == "floor"
        missed = floor and (outcome.reward != self._low or outcome.status is Status.CORRECT)
        return shown_outcome(outcome) if missed else ""

    def _words(self, group: Group) -> str:
        return f"{self._low:g}" if getattr(self._expected, group) == "floor" else f"{self._low:g}..{self._high:g}"


def _row(name: str, expected: str, findings: Iterator[Finding]) -> CheckRow:
    """Return the row of a check, failed with the first finding of something."""
    title = f"episodes: {name}"
    for case, got, reason, broke in findings:
        if got:
            why = f"{case.name}{f' ({reason})' if reason else ''}; {ADVICE[name]}"
            text, prompt = shorten("\n".join(case.texts)), shorten(case.prompt.messages[-1].content)
            return CheckRow(title, False, expected, got, why, text, prompt, got if broke else "")
    return CheckRow(title, True, expected, "all")


def _good_texts(shown: Completion | None | NoReply, gold: str | None | NoReply) -> tuple[str, ...]:
    if isinstance(shown, Completion):
        return tuple(turn.text for turn in shown.turns if turn.role == "assistant") or (shown.text,)
    return (FILLER, gold) if isinstance(gold, str) else (FILLER,)


def _trouble(case: EpisodeCase, *episodes: Played) -> Finding | None:
    """Return why an episode could not be played; None where all could."""
    return next((Finding(case, played.problem, broke=True) for played in episodes if played.problem), None)


def _verdict(played: Played) -> Outcome:
    return outcome_of(played.score or {"raised": "no episode"})


def _turns(played: Played) -> Sequence[Turn]:
    return Completion(**played.completion).turns if played.completion is not None else ()


def _difference(one: Played, other: Played) -> str:
    """Return how two episodes with the same turns of the model differ; nothing where they do not."""
    for place, (turn, again) in enumerate(zip(_turns(one), _turns(other), strict=False)):
        if turn.text != again.text:
            return f"turn {place + 1} is {shorten(again.text)} for {shorten(turn.text)}"
        if turn != again:
            return f"turn {place + 1} has the reward {again.reward} for {turn.reward}, or other calls"
    kept: list[Any] = [(played.completion or {}).get("outcome") for played in (one, other)]
    if kept[0] != kept[1]:
        return f"the outcome is {kept[1]!r:.80} for {kept[0]!r:.80}"
    return "" if one.completion == other.completion else "it ends elsewhere"


def _reason(outcome: Outcome) -> str:
    return outcome.reason if isinstance(outcome, Score) else ""
