"""An evaluation: figures are those of the samples in its files, a stopped one goes on, models stand side by side."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from verigym import cli
from verigym.cli.evaluate import _labelled
from verigym.envs import Status, UsageError, load
from verigym.envs.metrics import pass_at_k
from verigym.trainer.checkpoints.run_record import command_line
from verigym.trainer.config.run import SourceConfig
from verigym.trainer.evaluation import report as report_module
from verigym.trainer.evaluation.config import EvalConfig
from verigym.trainer.evaluation.run import run_evaluation
from verigym.trainer.evaluation.tasks import held_out
from verigym.trainer.monitoring.progress import Interrupted
from verigym.trainer.stages.kept_completions import KeptCompletions
from verigym.trainer.stages.sample_log import read_samples

SOURCES = [{"environment": "arithmetic", "options": {"digits": 1, "operations": "+"}}, {"environment": "units"}]
PICKERS = {"steps": {"environment": "process", "options": {"split": [",", "</think>"]}}}


def settings(output: Path, model: Path, **more: Any) -> EvalConfig:
    fields: dict[str, Any] = {
        "models": {"sums": str(model)},
        "output": output,
        "sources": SOURCES,
        "samples": 4,
        "prompts": 10,
        "prompts_at_a_time": 5,
        "max_new_tokens": 24,
        "workers": 0,
        "device": "cpu",
        "threads": 1,
        "pickers": PICKERS,
        **more,
    }
    return EvalConfig(**fields)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, sums_model: Path, tiny_model: Any, tiny_tokenizer: Any) -> Path:
    """Two models side by side, one of them untrained, with training data that holds three of the prompts."""
    folder = tmp_path_factory.mktemp("evaluation")
    tiny_model.save_pretrained(folder / "noise")
    tiny_tokenizer.save_pretrained(folder / "noise")
    units = held_out(SourceConfig(environment="units"), 10).held_out
    rows = [{"prompt": f"Q: {prompt.text}", "completion": "?"} for prompt in units[:3]]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    models = {"sums": str(sums_model), "noise": str(folder / "noise")}
    run_evaluation(settings(folder / "out", sums_model, models=models, train_data=[str(folder / "train.jsonl")], ngram=50))
    return folder / "out"


def report_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


@pytest.mark.slow
def test_the_figures_are_those_of_the_samples(first: Path) -> None:
    report = report_of(first)
    found = read_samples(first / "samples-sums.jsonl")
    assert len(found) == 20
    environment: Any = load("arithmetic", digits=1, operations="+")
    for one in found[:10]:
        prompt = environment.prompt_at(one.metadata["split"], one.metadata["seed"], one.metadata["index"])
        assert prompt.key == one.prompt_key and one.metadata["split"] == "test"
        for sample in one.samples:
            assert (
                sample.correct is (environment.score(prompt, sample.text).status is Status.CORRECT)
                or sample.finish_reason == "length"
            )
    for label, mine in (("arithmetic", found[:10]), ("units", found[10:]), ("all", found)):
        part = report["models"]["sums"][label]
        right = [sum(sample.correct for sample in one.samples) for one in mine]
        assert part["figures"]["avg@4"]["value"] == pytest.approx(fmean(right) / 4)
        for k in (1, 2, 4):
            expected = fmean(pass_at_k(4, count, k) for count in right)
            assert part["figures"][f"pass@{k}"]["value"] == pytest.approx(expected)
        assert part["figures"]["pass@1"]["value"] == pytest.approx(part["figures"]["avg@4"]["value"])
        assert part["tokens"] == fmean(sample.tokens for one in mine for sample in one.samples)
        curve = part["curves"]["best-of by steps"]
        assert [point["samples"] for point in curve] == [1, 2, 4]
        assert curve[0]["value"] == pytest.approx(part["figures"]["avg@4"]["value"]), "one sample leaves no choice"
        assert curve[2]["tokens"] == pytest.approx(4 * part["tokens"])
    sums = report["models"]["sums"]["arithmetic"]["figures"]
    assert 0 < sums["avg@4"]["value"] < 1 and sums["pass@4"]["value"] > sums["avg@4"]["value"]
    low, high = sums["avg@4"]["low"], sums["avg@4"]["high"]
    assert low < sums["avg@4"]["value"] < high


def test_the_report_says_how_it_was_made(first: Path) -> None:
    start = report_of(first)["start"]
    assert start == json.loads((first / "run.json").read_text())["starts"][-1]
    assert (
        start["made_with"]["samples"] == 4 and start["made_with"]["pickers"]["steps"]["options"] == PICKERS["steps"]["options"]
    )
    assert start["versions"].keys() >= {"python", "torch", "verigym"} and start["command"] == command_line()
    assert {name if name.endswith("jsonl") else name.split()[0] for name in start["inputs"]} == {
        "model",
        str(first.parent / "train.jsonl"),
    }
    assert all(len(digest) >= 16 for digest in start["inputs"].values())


def test_models_that_give_no_answer_are_shown_with_their_texts_and_golds(first: Path) -> None:
    report, page = report_of(first), (first / "report.md").read_text()
    (hint,) = [line for line in report["hints"] if line.startswith("noise, arithmetic: ")]
    assert "no answer was found in 40 of 40 samples; they end in '" in hint and hint.count("(gold '") == 3
    assert hint.endswith("most are cut off: raise max_new_tokens")
    assert not any(line.startswith("sums, arithmetic") for line in report["hints"])
    assert f"hint: {hint}" in page
    assert report["models"]["noise"]["arithmetic"]["no_answer"] == 1
    golds = [one.gold for one in read_samples(first / "samples-sums.jsonl")]
    assert len(golds) == 20 and all(golds)


def test_models_stand_side_by_side(first: Path) -> None:
    report, page = report_of(first), (first / "report.md").read_text()
    assert "| | sums | noise |" in page and "noise minus sums, on the same prompts: avg@4 -" in page
    compared = report["compared"]["noise"]
    all_of = {name: report["models"][name]["all"]["figures"]["avg@4"]["value"] for name in ("sums", "noise")}
    assert compared["gain"]["value"] == pytest.approx(all_of["noise"] - all_of["sums"])
    for source, one in compared["gain_by_source"].items():
        of_source = [report["models"][name][source]["figures"]["avg@4"]["value"] for name in ("noise", "sums")]
        assert one["value"] == pytest.approx(of_source[0] - of_source[1])
    sources = [name for name in report["models"]["sums"] if name != "all"]
    assert list(compared["gain_by_source"]) == sources and len(sources) > 1
    assert all(f"{source} {report_module.gain(compared['gain_by_source'][source])}" in page for source in sources)
    assert compared["length_growth"] > 1, "noise does not end"
    assert (first / "curves.png").read_bytes().startswith(b"\x89PNG")
    parts = [part for of in report["models"].values() for part in of.values()]
    assert ("| reflection/backtrack |" in page) == any(part["reflection/backtrack"] for part in parts)


def test_prompts_in_the_training_data_are_counted_and_left_out_beside(first: Path) -> None:
    found = report_of(first)["contamination"]
    assert (found["units"]["hits"], found["units"]["prompts"]) == (3, 10)
    assert found["units"]["found"][0]["where"].endswith("train.jsonl:1")
    assert found["units"]["without"]["sums"]["avg@4"]["prompts"] == 7
    assert found["arithmetic"]["hits"] == 0
    page = (first / "report.md").read_text()
    assert "3 of 10 prompts share 50 words in a row" in page and "arithmetic: 0 of 10 prompts share" in page
    assert len(found["units"]["found"]) == 3
    for hit in found["units"]["found"]:
        assert hit["id"].startswith("test ") and f"| {hit['id']} | {hit['words']} | {hit['where']} |" in page
    samples = {name: read_samples(first / f"samples-{name}.jsonl") for name in ("sums", "noise")}
    known = {f"test index {one.metadata['index']}" for one in samples["sums"] if one.source == "units"}
    hits = {hit["id"] for hit in found["units"]["found"]}
    assert hits < known
    assert "| | sums | sums without hits | noise | noise without hits |" in page
    for name, of in samples.items():
        clean = [one for one in of if one.source == "units" and f"test index {one.metadata['index']}" not in hits]
        right = fmean(sum(sample.correct for sample in one.samples) / 4 for one in clean)
        assert found["units"]["without"][name]["avg@4"]["value"] == pytest.approx(right)
    assert "best-of by steps@4" in found["units"]["without"]["sums"]
    assert "| prompts with a verdict | 10 | 7 | 10 | 7 |" in page


def test_figures_without_the_hits_are_shown_for_any_figures() -> None:
    def figure(value: float | None) -> dict[str, Any]:
        return {"avg@1": {"value": value, "low": None, "high": None, "prompts": 4}}

    models = {"m": {"s": {"figures": figure(0.0)}}}
    hits = [{"id": f"test row {row}", "words": "a b", "where": "x|y.jsonl:1"} for row in range(22)]
    part = {"hits": 22, "prompts": 30, "ngram": 2, "found": hits, "without": {"m": figure(0.0)}}
    page = "\n".join(report_module._contamination("s", part, models))
    assert "| avg@1 | 0.000 | 0.000 |" in page and "| test row 19 | a b | x\\|y.jsonl:1 |" in page
    assert "test row 20" not in page and "2 more are in report.json." in page
    page = "\n".join(report_module._contamination("s", {**part, "without": {"m": figure(0.5)}}, models))
    assert "| avg@1 | 0.000 | 0.500 |" in page
    page = "\n".join(report_module._contamination("s", {**part, "without": {}}, models))
    assert page.endswith("No sampled prompt is left without them.")


def test_reflection_that_no_model_shows_is_in_no_table() -> None:
    plain = dict.fromkeys(["prompts", "unscored", "no_answer", "truncated", "tokens"], 1)
    one = {"s": {**plain, "figures": {}, "reflection/retry": 0.0, "reflection/backtrack": 0.0}}
    other = {"s": {**plain, "figures": {}, "reflection/retry": 0.0, "reflection/backtrack": 0.5}}
    report: dict[str, Any] = {"samples": 1, "temperature": 0, "models": {"a": one, "b": other}, "left_out": {}}
    page = report_module.markdown(
        {**report, "compared": {}, "unscored": [], "judge_exceptions": [], "hints": [], "contamination": {}}
    )
    assert "| reflection/backtrack | 0 | 0.5 |" in page and "reflection/retry" not in page and "| unscored | 1 | 1 |" in page


@pytest.mark.slow
def test_stopped_it_goes_on_and_another_look_samples_nothing(
    first: Path, tmp_path: Path, sums_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sampled = KeptCompletions.add, []

    def add(self: KeptCompletions, key: Any, generated: Any) -> None:
        real(self, key, generated)
        sampled.append(key)
        if len(sampled) in stops:
            signal.raise_signal(stops[len(sampled)])

    stops = {27: signal.SIGTERM, 33: signal.SIGINT}  # a batch has 20 completions
    monkeypatch.setattr(KeptCompletions, "add", add)
    config = settings(tmp_path, sums_model, pickers={})
    for number in stops:
        told = f"eval sums: stopped after 5 of 20 prompts, {number - 20} completions of the next ones are kept"
        with pytest.raises(Interrupted, match=told):
            run_evaluation(config)
    assert (tmp_path / "samples-sums.jsonl.unfinished").read_bytes().count(b"\n") == 14
    run_evaluation(config)
    assert len(sampled) == len(set(sampled)) == 80, "none is sampled twice"
    assert not (tmp_path / "samples-sums.jsonl.unfinished").exists()
    same = report_of(first)["models"]["sums"]["all"]["figures"]
    assert report_of(tmp_path)["models"]["sums"]["all"]["figures"].items() <= same.items()
    run_evaluation(settings(tmp_path, sums_model))
    assert len(sampled) == 80, "a picker looks at the samples that are there"
    assert report_of(tmp_path)["models"]["sums"]["all"]["figures"] == same
    with pytest.raises(UsageError, match=r"was made with other settings: max_new_tokens was 24 and is now 20\. .*new folder"):
        run_evaluation(settings(tmp_path, sums_model, max_new_tokens=20))


@pytest.mark.slow
def test_the_command_line(tmp_path: Path, sums_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "suite.yaml").write_text("model: m\nsources:\n  - environment: units\n    weight: 2\n")
    command = ["eval", f"mine={sums_model}", "--output", str(tmp_path / "out"), "--suite", str(tmp_path / "suite.yaml")]
    command += ["--env", 'arithmetic={"digits": 1}', "--prompts", "3", "--max-new-tokens", "16"]
    command += ["--picker", 'prm=process{"split": "lines"}', "--set", "workers=0", "--set", "device=cpu"]
    assert cli.main(command) == 0
    out = capsys.readouterr().out
    assert "## arithmetic" in out and "best-of by prm@1" in out and "avg@1" in out
    report = report_of(tmp_path / "out")
    assert report["temperature"] == 0 and list(report["models"]) == ["mine"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m"], "nothing to evaluate on; give --data, --env or --suite"),
        (["a/m", "a/m", "--env", "units"], "two models are called 'm'; name them, NAME=MODEL"),
        (["b=x/m", "b/m", "c/m", "--env", "units"], "two models are called 'b'; name them, NAME=MODEL"),
        (["m", "--env", "units", "--set", "prompts=3"], "--set prompts=3: that has an option or an argument of its own"),
        (["m", "--env", "units", "--set", "seed=1", "--set", "seed=2"], "override 'seed=2': 'seed=1' sets this field too"),
        (["m", "--env", "units", "--set", "temprature=1"], "unknown field 'temprature'; did you mean 'temperature'?"),
        (["m", "--env", "units", "--k", "2", "--temperature", "0"], "greedy samples are all the same"),
        (["m", "--env", "units={"], "not JSON"),
        (["m", "--env", "all"], "a source is called 'all'"),
        (["/no/model", "--env", "units"], "there is no directory '/no/model'"),
        (["m", "--env", "units", "--picker", "math"], "picker 'math' wants a reference"),
        (["m", "--env", "units", "--picker", "proces"], "proces"),
        (["m", "--data", "gsm9k"], "no data set is called 'gsm9k'"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", *arguments, "--output", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("models", "names"),
    [
        (["A/final", "B/final/"], ["A", "B"]),
        (["runs/A/checkpoints/step-5", "runs/B/checkpoints/step-5", "hub/other"], ["A", "B", "other"]),
        (["one=A/final", "B/final"], ["one", "final"]),
        (["here/final", "final"], ["here", "folder"]),
    ],
)
def test_models_of_one_name_are_called_after_the_nearest_folder_that_differs(
    models: list[str], names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder/here/final").mkdir(parents=True)
    (tmp_path / "folder/final").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    assert _labelled(models) == {name: model.removeprefix("one=") for name, model in zip(names, models, strict=True)}


def test_training_data_is_checked_before_a_model_is_looked_at(tmp_path: Path) -> None:
    config = settings(tmp_path / "out", tmp_path / "no-model", train_data=[str(tmp_path / "absent.jsonl")])
    with pytest.raises(UsageError, match=r"field 'train_data': there is no file '.*absent.jsonl'"):
        run_evaluation(config)
    assert not (tmp_path / "out").exists()
