"""Small interactive environments for the tests, and the way to play their episodes in workers."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sample_envs import ExactEnvironment, ExactOptions

from verigym import Completion, EnvironmentFailure, Message, Prompt, Reply, ScoreError, Turn, run_episode
from verigym.envs.contract.schema import FinishReason
from verigym.envs.contract.transcript import Transcript
from verigym.envs.sessions import Episode, SessionLimit, Sessions


class TalkOptions(ExactOptions):
    folder: str = ""
    """Where sessions note what they do: `closed`, one line each; and where bombs are laid (`bomb-PID`)."""


class Talk:
    """Answers with a hash of all that was said before, and does what the first word of a text says."""

    tools = ()

    def __init__(self, folder: str, prompt: Prompt, answer: str, seed: str) -> None:
        self.folder, self.answer = folder, answer
        self.state = hashlib.sha256(f"{prompt.key}/{seed}".encode()).hexdigest()
        self.said, self.kept, self.closed = 0, [], False
        self.may_explode()

    def read(self, text: str) -> Turn:
        return Turn(role="assistant", text=text)

    def respond(self, turn: Turn) -> Reply:
        word = turn.text.partition(" ")[0]
        self.may_explode()
        if word in SPELLS:
            SPELLS[word](self)
        self.said += 1
        self.state = hashlib.sha256(f"{self.state}/{turn.text.encode('utf-8', 'backslashreplace')!r}".encode()).hexdigest()
        if word == "DONE":
            return Reply(done=True, reward=0.5)
        text = {"PID": str(os.getpid()), "OTHER": str(time.monotonic_ns())}.get(word, self.state)
        return Reply(messages=(Message(role="user", content=text),), reward=0.25 if self.said % 2 else None)

    def close(self) -> Mapping[str, Any]:
        if self.answer == "DIE-CLOSE":
            die(self)
        if self.answer == "RAISE-CLOSE":
            raise ZeroDivisionError("in close")
        if self.folder and not self.closed:
            self.closed = True
            with open(Path(self.folder) / "closed", "a") as file:
                file.write(f"{self.state}\n")
        self.may_explode()
        return {"said": self.said, "state": self.state}

    def may_explode(self) -> None:
        """Take the bomb that is laid for this process, if there is one, and do as it says."""
        bomb = Path(self.folder) / f"bomb-{os.getpid()}"
        if self.folder and bomb.exists():
            kind = bomb.read_text()
            bomb.unlink()
            SPELLS[kind](self)


def die(talk: Talk) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def stop(talk: Talk) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def hang(talk: Talk) -> None:
    time.sleep(600)


def fail(talk: Talk) -> None:
    raise EnvironmentFailure("unavailable", "no server", retryable=True)


def complain(talk: Talk) -> None:
    raise ZeroDivisionError("by the text")


def run_short(talk: Talk) -> None:
    raise MemoryError


def start_processes(talk: Talk) -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    if os.fork() == 0:
        time.sleep(600)


def speak(talk: Talk) -> None:
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                os.write(int(name), b"\x00\x00\x00\x05hello")
        except OSError:
            continue


SPELLS = {
    "HANG": hang,
    "DIE": die,
    "EXIT": lambda talk: os._exit(3),
    "STOP": stop,
    "EAT": lambda talk: bytearray(10_000_000_000),
    "KEEP": lambda talk: talk.kept.append(bytearray(400_000_000)),
    "SHORT": run_short,
    "RAISE": complain,
    "QUIT": lambda talk: sys.exit(1),
    "FAIL": fail,
    "SOCKET": lambda talk: open("/nonexistent/file"),
    "SPEAK": speak,
    "FORK": lambda talk: os.fork(),
    "CHILDREN": start_processes,
    "SLEEP": lambda talk: time.sleep(0.2),
    "NAP": lambda talk: time.sleep(0.02),
}


class TalkEnvironment(ExactEnvironment):
    """Talks. The answer of a prompt says what its sessions do by themselves."""

    name = "talk"
    options_type = TalkOptions
    options: TalkOptions

    def open(self, prompt: Prompt, seed: str) -> Talk:
        answer = self.reference(prompt).answer
        if answer == "DIE-OPEN":
            os.kill(os.getpid(), signal.SIGKILL)
        if answer == "FAIL-OPEN":
            raise EnvironmentFailure("unavailable", "no server at all")
        return Talk(self.options.folder, prompt, answer, seed)


class OddEnvironment(TalkEnvironment):
    """Breaks the contract of sessions by what it returns."""

    name = "odd"

    def open(self, prompt: Prompt, seed: str) -> Any:
        return OddTalk(self.options.folder, prompt, self.reference(prompt).answer, seed)


class OddTalk(Talk):
    def respond(self, turn: Turn) -> Any:
        if turn.text == "NOTHING":
            return None
        if turn.text == "MUCH":
            return Reply(messages=(Message(role="user", content="a" * 70_000_000),))
        return Reply(done=True)

    def close(self) -> Any:
        return {"what": {1, 2}} if self.answer == "SET" else super().close()


class UnsendableTalk(TalkEnvironment):
    name = "unsendable-talk"

    def __init__(self) -> None:
        super().__init__()
        self.helper = lambda: None


def scripted(texts: Sequence[str]) -> Any:
    """Return the policy that writes these texts."""
    left = list(texts)
    return lambda messages: left.pop(0)


def undisturbed(env: Any, prompt: Prompt, texts: Sequence[str], seed: str = "0") -> Completion:
    """Return the episode as it is played in this process."""
    return run_episode(env, prompt, scripted(texts), seed=seed, max_turns=len(texts))


def play(sessions: Sessions, prompt: Prompt, texts: Sequence[str], seed: str = "0") -> Completion:
    """Play an episode in a worker, and return it as `run_episode` does."""
    return play_on(sessions.open(prompt, seed), prompt, texts)


def play_on(episode: Episode, prompt: Prompt, texts: Sequence[str]) -> Completion:
    """Play an episode that is open."""
    transcript, reason = Transcript(prompt), "turns"
    failure: ScoreError | None = None
    outcome: Mapping[str, Any] | None = None
    try:
        for text in texts:
            transcript.add(Turn(role="assistant", text=text))
            answer = episode.turn(text).result()
            transcript.turns[-1] = answer.turn
            transcript.answer(answer.reply)
            if answer.reply.done:
                reason = "stop"
                break
        outcome = episode.end().result()
    except EnvironmentFailure as error:
        failure, reason = error.score().error, "abort"
        try:
            outcome = episode.end().result()
        except EnvironmentFailure:
            outcome = None
    except SessionLimit as blamed:
        reason, outcome = "limit", {"limit": blamed.why}
    finish: FinishReason = reason  # type: ignore[assignment]
    return transcript.completion(finish, outcome, failure)
