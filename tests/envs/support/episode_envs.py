"""Interactive environments that the conformance kit must tell apart: one that keeps the contract, and one for each breach.

`rows_of` finds the rows on their episodes without starting processes.
"""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sample_envs import Answer, ExactEnvironment

from verigym.envs import Completion, Environment, Message, Prompt, Reply, Score, Turn, UsageError, run_episode
from verigym.envs.conformance import worker
from verigym.envs.conformance.client import CheckBudget, EnvironmentClient
from verigym.envs.conformance.episode_checks import episode_rows
from verigym.envs.conformance.report import CheckRow
from verigym.envs.contract.blame import describe


class RiddleSession:
    """Says how often it was asked; the right answer ends the episode."""

    tools = ()
    says = "Right."

    def __init__(self, environment: Any, answer: str) -> None:
        self.environment, self.answer = environment, answer
        self.asked, self.closed = 0, False

    def read(self, text: str) -> Turn:
        return Turn(role="assistant", text=text)

    def respond(self, turn: Turn) -> Reply:
        if self.closed:
            raise UsageError("the session is closed")
        self.asked += 1
        return self.reply(turn.text)

    def reply(self, text: str) -> Reply:
        if text == f"answer: {self.answer}":
            return Reply(done=True, messages=(Message(role="user", content=self.says),))
        return self.message(f"No. That was try {self.asked}.")

    def message(self, text: str) -> Reply:
        return Reply(messages=(Message(role="user", content=text),))

    def close(self) -> Mapping[str, Any]:
        self.closed = True
        return {"asked": self.asked}


class RiddleEnvironment(ExactEnvironment):
    """Keeps the contract: the answer may take several turns."""

    name = "riddles"
    session: type[RiddleSession] = RiddleSession

    def open(self, prompt: Prompt, seed: str) -> RiddleSession:
        return self.session(self, self.reference(prompt).answer)

    def demonstrate(self, prompt: Prompt) -> Completion:
        return run_episode(self, prompt, lambda messages: self.gold(prompt))


class UnwholeSession(RiddleSession):
    """Neither goes on nor ends the episode after the second turn."""

    def reply(self, text: str) -> Reply:
        return Reply() if self.asked == 2 else super().reply(text)


class RaisingSession(RiddleSession):
    def close(self) -> Mapping[str, Any]:
        raise OSError("the server is gone")


class ShapelessSession(RiddleSession):
    def respond(self, turn: Turn) -> Any:
        return "No."


class SystemSession(RiddleSession):
    """Speaks in a role that the model does not read."""

    def message(self, text: str) -> Reply:
        return Reply(messages=(Message(role="system", content=text),))


class OpenEndedSession(RiddleSession):
    """Goes on after it was closed."""

    def respond(self, turn: Turn) -> Reply:
        self.closed = False
        return super().respond(turn)


class OnceClosedSession(RiddleSession):
    def close(self) -> Mapping[str, Any]:
        if self.closed:
            raise UsageError("it is closed already")
        return super().close()


class CountingSession(RiddleSession):
    """Counts how often it is closed."""

    times = 0

    def close(self) -> Mapping[str, Any]:
        self.times += 1
        return {**super().close(), "closed": self.times}


class RandomSession(RiddleSession):
    def message(self, text: str) -> Reply:
        return super().message(f"{text} {random.random()}")


class RememberingSession(RiddleSession):
    """Says how many episodes its environment has had: the same in each process, and never the same again."""

    def __init__(self, environment: Any, answer: str) -> None:
        super().__init__(environment, answer)
        environment.episodes = getattr(environment, "episodes", 0) + 1
        self.number = environment.episodes

    def message(self, text: str) -> Reply:
        return super().message(f"{text} Episode {self.number}.")


class HashSession(RiddleSession):
    """The hash of a text differs by process."""

    def message(self, text: str) -> Reply:
        return super().message(f"{text} {hash(text)}")


class SharingSession(RiddleSession):
    """Keeps its count on the environment. Each episode begins anew, so one after the other they are as they should be."""

    def __init__(self, environment: Any, answer: str) -> None:
        super().__init__(environment, answer)
        environment.asked = 0

    @property
    def asked(self) -> int:
        return self.environment.asked  # type: ignore[no-any-return]

    @asked.setter
    def asked(self, value: int) -> None:
        self.environment.asked = value


class SplittingSession(RiddleSession):
    """Takes what looks like a message of the user for one, and drops it."""

    def read(self, text: str) -> Turn:
        return super().read(text.partition("\nuser:")[0])


class BelievingEnvironment(RiddleEnvironment):
    """Pays for its own words, wherever they stand."""

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        transcript = [completion.text, *(turn.text for turn in completion.turns)]
        if any(RiddleSession.says in text for text in transcript):
            return Score.correct()
        return super().judge(prompt, reference, completion)


class ListeningEnvironment(RiddleEnvironment):
    """Judges the last turn, whoever said it."""

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        if completion.turns and completion.turns[-1].text != RiddleSession.says:
            completion = Completion(text=completion.turns[-1].text)
        return super().judge(prompt, reference, completion)


class EncodingSession(RiddleSession):
    """Cannot write half a surrogate."""

    def reply(self, text: str) -> Reply:
        text.encode()
        return super().reply(text)


class ParsingSession(RiddleSession):
    """Reads JSON of any depth."""

    def reply(self, text: str) -> Reply:
        try:
            json.loads(text)
        except ValueError:
            pass
        return super().reply(text)


class SilentEnvironment(RiddleEnvironment):
    """Has no verdict on what it cannot write."""

    def score(self, prompt: Prompt, completion: Any) -> Score:
        text = Completion.of(completion).text
        if text and not text.isprintable() and "\ud800" in text and "tool_call" in text:
            return Score.failed("backend", "cannot be written").model_copy(update={"grader": self.grader})
        return super().score(prompt, completion)


class HangingSession(RiddleSession):
    """Takes very long over very long turns."""

    def reply(self, text: str) -> Reply:
        while len(text) > 150_000:
            time.sleep(1)
        return super().reply(text)


class ForgetfulSession(RiddleSession):
    """Notes on the environment what was won."""

    def reply(self, text: str) -> Reply:
        reply = super().reply(text)
        self.environment.won = reply.done
        return reply


class RememberingEnvironment(RiddleEnvironment):
    """Believes what a session has noted, and not what is in the episode."""

    session = ForgetfulSession

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        if completion.turns and not getattr(self, "won", True):
            return Score.no_answer(reason="not noted")
        return super().judge(prompt, reference, completion)


class PatientEnvironment(RiddleEnvironment):
    """Pays for long episodes."""

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        score = super().judge(prompt, reference, completion)
        if len(completion.turns) < 10 or score.status == "correct":
            return score
        return Score.partial(len(completion.turns) / 100, reason="so patient")


class BoastingEnvironment(RiddleEnvironment):
    """Shows an episode that is not right."""

    def demonstrate(self, prompt: Prompt) -> Completion:
        return run_episode(self, prompt, lambda messages: "answer: surely", max_turns=2)


def with_session(session: type[RiddleSession]) -> RiddleEnvironment:
    """The environment that opens such sessions."""
    environment = RiddleEnvironment()
    environment.session = session
    return environment


class HereChild:
    """The handlers of the worker, without a process."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def exchange(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        sent = json.loads(json.dumps(request))
        try:
            reply = {"reply": worker._HANDLERS[sent["do"]](self.environment, sent)}
        except Exception as error:
            reply = {"raised": describe(error)}
        return json.loads(json.dumps(reply))  # type: ignore[no-any-return]


def rows_of(environment: Any, prompts: Sequence[Prompt] | None = None) -> dict[str, CheckRow]:
    """The rows on episodes by their names; the second instance is a fresh copy."""
    first, second = (
        EnvironmentClient(HereChild(one), CheckBudget(60, 600, None))  # type: ignore[arg-type]
        for one in (environment, copy.deepcopy(environment))
    )
    tasks = list(environment.examples() if prompts is None else prompts)
    golds = [first.gold(task) for task in tasks]
    rows = list(episode_rows(environment, first, second, tasks, golds))
    return {row.name.removeprefix("episodes: "): row for row in rows}
