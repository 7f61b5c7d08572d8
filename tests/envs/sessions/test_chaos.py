"""Workers that are killed, stopped and made to hang at random: no episode is another one than it would have been."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from held import nothing_left
from patience import HANG_S
from session_envs import TalkEnvironment, play, undisturbed

from verigym import Completion
from verigym.envs.contract.schema import sha256_hex
from verigym.envs.sessions import Sessions
from verigym.envs.sessions.owner import Owner

EACH = 25
"""Harms of each worker."""
HARMS = ("SIGKILL", "SIGKILL", "SIGSTOP", "DIE", "DIE", "HANG", "STOP")
"""From outside by a signal, or from inside, in the middle of a turn, of opening or of closing."""


def drawn(name: str) -> random.Random:
    return random.Random(sha256_hex(name))


def texts_of(number: int) -> list[str]:
    """Return what the model of an episode writes; one of eight kills its worker by itself."""
    dice = drawn(f"chaos/{number}")
    texts = [f"{dice.choice(('turn', 'NAP'))} {dice.randrange(1000)}" for _ in range(dice.randrange(1, 7))]
    if number % 8 == 0:
        texts.insert(dice.randrange(len(texts) + 1), "DIE")
    return [*texts, "DONE"] if dice.random() < 0.7 else texts


def pid_of(owner: Owner) -> int | None:
    process = owner._worker._child._process
    try:
        return None if process is None else process.pid
    except ValueError:  # closed in this moment
        return None


def wait_until(condition, until: float) -> None:
    while not condition():
        assert time.monotonic() < until, "a worker was not replaced"
        time.sleep(0.005)


def harm(owner: Owner, folder: Path, dice: random.Random, until: float) -> bool:
    """Harm a worker once, and wait until the turn that was hit is over, so that none is hit twice; return if it was there."""
    pid, how = pid_of(owner), dice.choice(HARMS)
    if pid is None:
        time.sleep(0.005)
        return False
    bomb = folder / f"bomb-{pid}"
    if how in ("SIGKILL", "SIGSTOP"):
        try:
            os.kill(pid, signal.Signals[how])
        except ProcessLookupError:
            return False
    else:
        (folder / "bomb").write_text(how)
        (folder / "bomb").rename(bomb)
    wait_until(lambda: pid_of(owner) != pid, until)
    went_off = not bomb.exists()
    bomb.unlink(missing_ok=True)
    hit = owner._doing
    wait_until(lambda: hit is None or owner._doing is not hit, until)
    return went_off


@pytest.mark.slow
def test_workers_are_harmed_at_random(tmp_path: Path, own_tmp: Path, warm: None) -> None:
    talk = TalkEnvironment()
    prompt = talk.prompt("Talk.", answer="x")
    played: dict[int, Completion] = {}
    harms = [0, 0, 0]
    until = time.monotonic() + HANG_S
    over = threading.Event()
    folders = [tmp_path / "bombs"]
    folders[0].mkdir()
    env = TalkEnvironment(folder=str(folders[0]))
    with nothing_left(), Sessions({"talk": env}, workers=len(harms), timeout_s=2, start_timeout_s=60) as sessions:
        sessions.start()

        def run(first: int) -> None:
            number = first
            while not over.is_set():
                played[number] = play(sessions, prompt, texts_of(number), str(number))
                number += 24

        def disturb(place: int) -> None:
            dice = drawn(f"harm/{place}")
            while harms[place] < EACH:
                time.sleep(dice.random() * 0.05)
                harms[place] += harm(sessions._engine._owners[place], folders[0], dice, until)

        players = [threading.Thread(target=run, args=(first,)) for first in range(24)]
        disturbers = [threading.Thread(target=disturb, args=(place,)) for place in range(len(harms))]
        for thread in (*players, *disturbers):
            thread.start()
        for thread in disturbers:
            thread.join()
        over.set()
        for thread in players:
            thread.join()
        stats = sessions.stats
    assert harms == [EACH] * 3
    counts = {"equal": 0, "limit": 0, "unscored": 0}
    for number, episode in played.items():
        texts = texts_of(number)
        if episode.failure is not None:
            assert talk.score(prompt, episode).reward is None
            counts["unscored"] += 1
        elif "DIE" in texts:
            before = texts[: texts.index("DIE")]
            assert episode.finish_reason == "limit"
            assert episode.turns[:-1] == undisturbed(talk, prompt, before, str(number)).turns if before else True
            assert episode.text == "DIE"
            counts["limit"] += 1
        else:
            assert episode == undisturbed(talk, prompt, texts, str(number))
            counts["equal"] += 1
    print(counts, stats)
    assert counts["equal"] > 4 * counts["unscored"] and counts["limit"] > 0
