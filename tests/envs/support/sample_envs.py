"""Small environments for the tests: one that works, and one for each way of not working."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from verigym.envs import BaseEnvironment, Completion, EnvironmentFailure, ExpectedVerdicts, Options, Prompt, Reference, Score


class Answer(Reference):
    answer: str


class ExactOptions(Options):
    strip: bool = True


class ExactEnvironment(BaseEnvironment[Answer, ExactOptions]):
    """`answer: X` must be the whole completion."""

    name = "exact"
    version = "1"
    reference_type = Answer
    options_type = ExactOptions

    def gold(self, prompt: Prompt) -> str:
        return f"answer: {self.reference(prompt).answer}"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        text = completion.text.strip() if self.options.strip else completion.text
        if not text.startswith("answer: "):
            return Score.no_answer(reason="no line that starts with 'answer: '")
        answer = text.removeprefix("answer: ")
        right = answer == reference.answer
        return Score.correct(answer=answer) if right else Score.incorrect(answer=answer)

    def examples(self) -> Sequence[Prompt]:
        return [self.prompt(f"Say {word}.", answer=word) for word in ("four", "17", "blue")]


class ScriptedEnvironment(ExactEnvironment):
    """Does what the completion's first word says, then grades the rest like `exact`."""

    name = "scripted"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        word = completion.text.split(" ", 1)[0]
        if word == "HANG":
            time.sleep(600)
        if word == "DIE":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "EXIT":
            os._exit(3)
        if word == "EAT":
            return Score.partial(0.5, answer=str(len(bytearray(10_000_000_000))))
        if word == "RAISE":
            raise ZeroDivisionError("by the text")
        if word == "PRINT":
            print("noise on stdout")
            os.write(1, b"more noise")
        if word == "SLEEP":
            time.sleep(0.2)
        if word == "PID":
            return Score.partial(0.5, answer=str(os.getpid()))
        if word == "GRANDCHILD":
            if os.fork() == 0:
                time.sleep(600)
            time.sleep(600)
        if word == "FORK":  # answers twice, by accident
            os.fork()
        return super().judge(prompt, reference, completion)


class HardenedScriptedEnvironment(ScriptedEnvironment):
    """The same, whose author declares that only a text can bring it down."""

    hardened = True


class RaisingEnvironment(ExactEnvironment):
    name = "raising"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        raise ValueError("broken")


class HangingEnvironment(ExactEnvironment):
    name = "hanging"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        while True:
            time.sleep(1)


class NanEnvironment(ExactEnvironment):
    name = "nan"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        return Score.model_construct(reward=float("nan"), status="correct", components={}, grader="", seconds=0.0)


class HungryEnvironment(ExactEnvironment):
    name = "hungry"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        return Score.correct(answer=str(len(bytearray(10_000_000_000))))


class SuicidalEnvironment(ExactEnvironment):
    name = "suicidal"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class FlakyEnvironment(ExactEnvironment):
    """Its back end fails for the first tries of each item; counts them in a folder."""

    name = "flaky"

    class _Options(ExactOptions):
        folder: str
        failures: int = 1
        retryable: bool = True

    options_type = _Options

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        log = Path(self.options.folder) / prompt.key
        with log.open("a") as file:
            file.write("x")
        if log.stat().st_size <= self.options.failures:
            raise EnvironmentFailure("unavailable", "back end is down", retryable=self.options.retryable)
        return super().judge(prompt, reference, completion)


class CrowdedEnvironment(ExactEnvironment):
    """Reports as its answer how many of its items were being graded at the same time."""

    name = "crowded"

    class _Options(ExactOptions):
        folder: str

    options_type = _Options

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        mark = Path(self.options.folder) / f"{os.getpid()}-{time.monotonic_ns()}"
        mark.touch()
        time.sleep(0.05)
        crowd = len(os.listdir(self.options.folder))
        mark.unlink()
        return Score.partial(0.5, answer=str(crowd))


class ForeignEnvironment:
    """Implements the protocol alone, without BaseEnvironment's protection; does what its `mode` says."""

    name = "foreign"
    version = "1"
    options = Options()
    reward_range = (0.0, 1.0)
    expected_verdicts = ExpectedVerdicts()
    grader = "foreign@1+00000000"

    def __init__(self, mode: str = "good") -> None:
        self.mode = mode
        self._exact = ExactEnvironment()

    def prompt(self, text, **reference):
        made = self._exact.prompt(text, **reference)
        return Prompt(messages=made.messages, environment=self.name, references=made.references)

    def load_prompt(self, data):
        return self._exact.load_prompt(data)

    def gold(self, prompt):
        return self._exact.gold(prompt)

    def check(self):
        return None

    def score(self, prompt, completion):
        if self.mode == "raise":
            raise RuntimeError("foreign trouble")
        if self.mode == "none":
            return None
        if self.mode == "range":
            return Score.correct(reward=7.0)
        return self._exact.score(prompt, completion)


class HackableEnvironment(ExactEnvironment):
    """Pays for the gold anywhere in the text, as many graders in the wild do."""

    name = "hackable"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        return Score.correct() if reference.answer in completion.text else Score.incorrect()


class RandomEnvironment(ExactEnvironment):
    name = "random"
    expected_verdicts = ExpectedVerdicts(gold="free", empty="free", echo="free", garbage="free", hacks="free")

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        return Score.partial(random.random())


class SlowEnvironment(ExactEnvironment):
    name = "slow"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        if len(completion.text) > 100_000:
            time.sleep(2.5)
        return super().judge(prompt, reference, completion)


class UnsendableEnvironment(ExactEnvironment):
    name = "unsendable"

    def __init__(self) -> None:
        super().__init__()
        self.helper = lambda: None


class RacyEnvironment(ExactEnvironment):
    """Keeps the completion on itself while judging, so that threads see each other's."""

    name = "racy"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        self._current = completion.text
        time.sleep(0.001)
        return super().judge(prompt, reference, Completion(text=self._current))


class UngoldenEnvironment(ExactEnvironment):
    name = "ungolden"

    def gold(self, prompt: Prompt) -> str:
        return "this is not the gold"


class ForgetfulEnvironment(ExactEnvironment):
    """Its prompts do not survive the way through JSON."""

    name = "forgetful"

    def load_prompt(self, data):
        return self.prompt("something else", answer="else")


class ShortEnvironment(BaseEnvironment[Reference, Options]):
    """Shaping: shorter is better, down to -1 at 100 characters. Needs no reference."""

    name = "short"
    version = "1"
    reference_type = Reference
    reward_range = (-1.0, 0.0)
    expected_verdicts = ExpectedVerdicts(gold="free", empty="maximum", echo="free", garbage="free", hacks="free")

    def judge(self, prompt: Prompt, reference: Reference, completion: Completion) -> Score:
        reward = -min(len(completion.text) / 100, 1.0)
        return Score.correct(reward=0.0) if reward == 0 else Score.partial(reward)


class PoliteEnvironment(BaseEnvironment[Reference, Options]):
    """Format: the text ends with `please`. Its status can be set by the text, its failure too."""

    name = "polite"
    version = "1"
    reference_type = Reference
    expected_verdicts = ExpectedVerdicts(hacks="free")

    def gold(self, prompt: Prompt) -> str:
        return "please"

    def judge(self, prompt: Prompt, reference: Reference, completion: Completion) -> Score:
        if "BACKEND" in completion.text:
            raise EnvironmentFailure("unavailable", "no etiquette server", retryable=True)
        if not completion.text:
            return Score.no_answer(reason="nothing there")
        polite = completion.text.endswith("please")
        return Score.correct() if polite else Score.incorrect(reason="impolite")


class ContainsEnvironment(ExactEnvironment):
    """The answer occurs somewhere; half marks for its first letter."""

    name = "contains"
    expected_verdicts = ExpectedVerdicts(echo="free", hacks="free")

    def gold(self, prompt: Prompt) -> str:
        return self.reference(prompt).answer

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        if reference.answer in completion.text:
            return Score.correct(answer=reference.answer)
        if completion.text.startswith(reference.answer[0]):
            return Score.partial(0.5, answer=completion.text[0])
        return Score.incorrect() if completion.text else Score.no_answer()
