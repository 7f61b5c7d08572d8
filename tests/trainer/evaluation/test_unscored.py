"""What got no verdict is graded again by the same command; where a source has none at all, the exit code says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from verigym import cli
from verigym.trainer.stages.sample_log import read_samples

MODULE = '''
from pathlib import Path
from typing import ClassVar
from verigym.envs import BaseEnvironment, Completion, EnvironmentFailure, Options, Prompt, Reference, Score

HERE = Path(__file__).parent

class Number(Reference):
    number: int

class Flaky(BaseEnvironment[Number, Options]):
    """Fails for the tasks that the file `down` lists; `log` says what was judged."""

    name, version, reference_type = "flaky", "1", Number

    def prompt_at(self, split, seed, index):
        return self.prompt(f"{index}+0=", number=index)

    def judge(self, prompt, reference, completion):
        with open(HERE / "log", "a") as log:
            log.write(f"{reference.number}\\n")
        if str(reference.number) in (HERE / "down").read_text().split():
            raise EnvironmentFailure("backend", "the calculator is down")
        if (HERE / "buggy").exists() and reference.number % 2 and completion.text != self.gold(prompt):
            raise ValueError("odd")
        return Score.incorrect(answer=completion.text[:5])

    def gold(self, prompt):
        return str(self.reference(prompt).number)

    def examples(self):
        return [self.prompt("1+0=", number=1)]


class Liker(BaseEnvironment[Reference, Options]):
    """Picks; fails as often as the file `picker_down` is there."""

    name, version, reference_type = "liker", "1", Reference

    def judge(self, prompt, reference, completion):
        with open(HERE / "picked", "a") as log:
            log.write("x")
        if (HERE / "picker_down").exists() and prompt.text.startswith("1"):
            raise EnvironmentFailure("backend", "the picker is down")
        return Score.incorrect()

    def gold(self, prompt):
        return None
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "flaky_sums.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "flaky_sums", raising=False)
    return tmp_path


def down(folder: Path, *numbers: int) -> None:
    (folder / "down").write_text(" ".join(map(str, numbers)))
    (folder / "log").write_text("")


def judged(folder: Path) -> list[str]:
    return (folder / "log").read_text().split()


def evaluate(folder: Path, model: Path, *more: str) -> int:
    command = ["eval", f"mine={model}", "--output", str(folder / "out"), "--env", "flaky_sums:Flaky", "--prompts", "6"]
    command += ["--max-new-tokens", "4", "--set", "workers=0", "--set", "device=cpu", "--set", "prompts_at_a_time=2"]
    return cli.main([*command, *more])


@pytest.mark.slow
def test_the_same_command_grades_again_what_has_no_verdict(
    folder: Path, sums_model: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    down(folder, 1, 4)
    assert evaluate(folder, sums_model) == 0
    shown = capsys.readouterr()
    line = (
        "2 of 6 samples have no verdict; the same command grades them again: the first cause, backend: the calculator is down"
    )
    assert f"warning: mine, flaky_sums:Flaky: {line}" in shown.out and line in (folder / "out/report.md").read_text()
    samples = folder / "out/samples-mine.jsonl"
    texts = [[sample.text for sample in one.samples] for one in read_samples(samples)]
    down(folder, 4)
    assert evaluate(folder, sums_model) == 0
    assert judged(folder) == ["1", "4"] and "2 of 6 completions in samples-mine.jsonl have no verdict" in caplog.text
    assert json.loads((folder / "out/report.json").read_text())["unscored"][0]["unscored"] == 1
    down(folder)
    assert evaluate(folder, sums_model) == 0
    assert judged(folder) == ["4"]
    assert json.loads((folder / "out/report.json").read_text())["unscored"] == []
    found = read_samples(samples)
    assert [[sample.text for sample in one.samples] for one in found] == texts
    assert all(sample.score.scored for one in found for sample in one.samples)
    down(folder)
    assert evaluate(folder, sums_model) == 0 and judged(folder) == []
    assert not list((folder / "out").glob("*.retried")) and not list((folder / "out").glob(".samples*"))


@pytest.mark.slow
def test_a_retry_that_was_killed_keeps_what_it_had(folder: Path, sums_model: Path) -> None:
    down(folder)
    assert evaluate(folder, sums_model) == 0
    samples = folder / "out/samples-mine.jsonl"
    whole = samples.read_text().splitlines()
    down(folder, 1, 2, 5)
    samples.unlink()
    assert evaluate(folder, sums_model) == 0
    entries = [json.dumps({"place": place, "by": json.loads(whole[place + 1])}) for place in (1, 2)]
    (folder / "out/samples-mine.jsonl.retried").write_text(entries[0] + "\n" + entries[1][:-20])
    down(folder)
    assert evaluate(folder, sums_model) == 0
    assert judged(folder) == ["2", "5"]
    assert [one.number for one in read_samples(samples)] == list(range(6))
    assert all(sample.score.scored for one in read_samples(samples) for sample in one.samples)


@pytest.mark.slow
def test_a_source_without_any_verdict_is_an_error(folder: Path, sums_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    down(folder, *range(10**3))
    assert evaluate(folder, sums_model, "--env", "units") == 3
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(
        "error: mine, flaky_sums:Flaky: none of 6 samples has a verdict; the same command grades them again"
    )
    assert error.endswith("the first cause, backend: the calculator is down")


def test_samples_on_which_judge_raised_are_counted_and_warned_of(
    folder: Path, sums_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    down(folder)
    (folder / "buggy").touch()
    assert evaluate(folder, sums_model) == 1
    shown, report = capsys.readouterr(), json.loads((folder / "out/report.json").read_text())
    (part,) = report["judge_exceptions"]
    assert (part["model"], part["source"], part["judge_exceptions"], part["samples"]) == ("mine", "flaky_sums:Flaky", 3, 6)
    line = f"judge raised on 3 of 6 samples, whose scores are not to be trusted: the first cause, {part['cause']}"
    assert part["cause"].startswith("ValueError: odd at ") and line in shown.out and line in shown.err


def rewards_in(picks: Path) -> list[list[float | None]]:
    return [[reward for _, reward in of] for of in json.loads(picks.read_text())["prompts"].values()]


@pytest.mark.slow
def test_what_a_picker_could_not_judge_is_judged_again(folder: Path, sums_model: Path) -> None:
    down(folder)
    (folder / "picker_down").touch()
    assert evaluate(folder, sums_model, "--picker", "one=flaky_sums:Liker") == 0
    picks = folder / "out/picks-one-mine.json"
    first = rewards_in(picks)
    assert first[1] == [None] and first.count([None]) == 1
    (folder / "picker_down").unlink()
    (folder / "picked").write_text("")
    assert evaluate(folder, sums_model, "--picker", "one=flaky_sums:Liker") == 0
    assert (folder / "picked").read_text() == "x"
    again = rewards_in(picks)
    assert again[:1] + again[2:] == first[:1] + first[2:] and again[1] != [None]


def test_more_tokens_than_the_model_has_positions_are_refused_before_it_samples(
    folder: Path, sums_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    down(folder)
    assert evaluate(folder, sums_model, "--max-new-tokens", "99999") == 2
    assert "positions, and a prompt of" in (error := capsys.readouterr().err) and "max_new_tokens can be " in error
    assert judged(folder) == []
