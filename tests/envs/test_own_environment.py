"""The walk-through of docs/own_environment.md: a newcomer adds an environment with one file. Its lines run as they stand."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from verigym.envs import (
    Completion,
    ExpectedVerdicts,
    Options,
    Prompt,
    Reference,
    Score,
    UsageError,
    WeightedSum,
    check_env,
    register,
)
from verigym.envs.contract.generated import GeneratedTasks, Made

PAGE = (Path(__file__).parents[2] / "docs/own_environment.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\w+) -->\n```\w*\n(.*?)```", PAGE, re.DOTALL))


def verigym(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # A process of its own: the file's class is looked for in the folder in which the command is typed.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "verigym", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_a_newcomer_adds_an_environment_with_one_file(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(EXAMPLES["environment"], encoding="utf-8")
    (tmp_path / "words.yaml").write_text(EXAMPLES["pipeline"], encoding="utf-8")
    commands = [shlex.split(line) for line in EXAMPLES["commands"].splitlines()]
    assert [command[:2] for command in commands] == [["verigym", "envs"], ["verigym", "check"], ["verigym", "pipeline"]]
    shown = []
    for command in commands:
        done = verigym(command[1:], tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        shown.append(done.stdout)
    assert "options.letters: default 3. How many a word has." in shown[0]
    assert "FAIL" not in shown[1] and "backwards@1+" in shown[1] and shown[1].rstrip().endswith(": passed")
    manifest = json.loads((tmp_path / "runs/words/manifest.json").read_text())
    assert [stage["name"] for stage in manifest["stages"]] == ["base", "start", "rl", "held-out"]
    held_out = manifest["stages"][-1]
    assert list(held_out["inputs"]["graders"]) == ["words", "code of words.py"]
    assert held_out["inputs"]["graders"]["words"].startswith("backwards@1+")
    assert set(held_out["figures"]) == {"start/words", "rl/words"}


@pytest.mark.slow
def test_an_environment_for_rows_is_checked_grades_and_trains(tmp_path: Path) -> None:
    (tmp_path / "anagram.py").write_text(EXAMPLES["anagram"], encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", EXAMPLES["rows"]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout and "3 of 3 golds score the maximum" in done.stdout
    scores = [json.loads(line)["score"] for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert [score["reward"] for score in scores] == [1.0, 0.5, 0.0]
    assert scores[1]["components"] == {"letters": 1.0, "known": 0.0}
    stages = json.loads((tmp_path / "runs/anagram/manifest.json").read_text())["stages"]
    assert [stage["name"] for stage in stages] == ["base", "rl"] and stages[1]["figures"]["steps"] == 5


class Word(Reference):
    word: str
    letters: int


class Named(GeneratedTasks[Word, Options]):
    """A task whose reference has fields of other names."""

    name, version, reference_type = "named", "1", Word

    def make(self, rng: random.Random) -> Made:
        word = "".join(rng.choice("abcdefgh") for _ in range(5))
        return Made(f"{word} backwards?", facts={"word": word[::-1], "letters": len(word)})

    def judge(self, prompt: Prompt, reference: Word, completion: Completion) -> Score:
        said = completion.text.strip()
        components = {"letters": float(len(said) == reference.letters)}
        if said == reference.word:
            return Score.correct(answer=said, components=components)
        return Score.incorrect(answer=said, components=components)

    def gold(self, prompt: Prompt) -> str:
        return self.reference(prompt).word


def test_a_generated_task_needs_no_field_of_a_certain_name() -> None:
    env = Named()
    task = env.prompt_at("train", 0, 0)
    word = env.reference(task).word
    assert task.text == f"{word[::-1]} backwards?" and env.score(task, word).reward == 1.0
    check_env(env).raise_if_failed()


class Answering(Named):
    def make(self, rng: random.Random) -> Made:
        return Made(f"How {rng.random()}?", "so")


class Forgetting(Named):
    def make(self, rng: random.Random) -> Made:
        return Made(f"How {rng.random()}?", facts={"word": "so"})


def test_an_answer_without_a_place_is_told() -> None:
    said = (
        r"make\(\) gave an answer, and Word has no field 'answer'; give its fields \(word, letters\) as Made\(question, facts"
    )
    with pytest.raises(UsageError, match=said):
        Answering().prompt_at("train", 0, 0)
    with pytest.raises(UsageError, match="reference of 'named': field 'letters' is missing"):
        Forgetting().prompt_at("train", 0, 0)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"version": None}, r'has no version: write `version = "1"` in the class'),
        ({"version": 1}, r'has version = 1, which is no text: write `version = "1"`'),
        ({"name": ""}, r"has name = '', which is no text: write `name = \"one-word\"`"),
        ({"reference_type": None}, "has no reference_type: write `reference_type = ...`, a class that extends Reference"),
        ({"reference_type": dict}, "has reference_type = <class 'dict'>: write"),
        ({"options_type": Word}, "has options_type = .*: write .*, a class that extends Options"),
        ({"panel": ExpectedVerdicts()}, "has `panel`, which nothing reads: write `expected_verdicts = ExpectedVerdicts"),
    ],
)
def test_what_a_class_must_say(attributes: dict[str, Any], said: str) -> None:
    bad = type("Bad", (Named,), attributes)
    with pytest.raises(UsageError, match=f"environment .*:Bad {said}"):
        bad()
    with pytest.raises(UsageError, match=f"environment .*:Bad {said}"):
        register("bad")(bad)


def test_a_class_without_its_methods_is_refused_at_once() -> None:
    lacking = type("Lacking", (GeneratedTasks,), {"name": "lacking", "version": "1", "reference_type": Word})
    with pytest.raises(UsageError, match=":Lacking lacks judge, make: write"):
        register("lacking")(lacking)


@pytest.mark.slow
def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    source = EXAMPLES["environment"].replace('"backwards", "1", Word, WordOptions', '"backwards", Word, WordOptions')
    source = source.replace("name, version, reference_type", "name, reference_type")
    (tmp_path / "words.py").write_text(source, encoding="utf-8")
    for command in ("envs", "check"):
        done = verigym([command, "words:Backwards"], tmp_path)
        assert done.returncode == 2
        assert done.stderr == 'error: environment words:Backwards has no version: write `version = "1"` in the class\n'


def test_every_verdict_takes_components() -> None:
    parts = {"spelling": 1.0, "length": None}
    for make in (Score.correct, Score.incorrect, Score.no_answer, Score.truncated, Score.limit):
        assert make(components=parts).components == parts and make().components == {}
    assert Score.partial(0.5, components=parts).components == parts
    score = WeightedSum({"named": 1.0}, {"named": Named()})
    task = score.prompt_at("train", 0, 0)
    assert score.score(task, "x").components["named/letters"] == 0.0
