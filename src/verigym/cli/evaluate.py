"""`verigym eval`: samples k completions of each held-out prompt from one or several models, and grades them.

torch is imported only when the command runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from verigym.cli.common import completion
from verigym.cli.common.json_output import Json, Result, json_output
from verigym.cli.common.loading import load_torch
from verigym.cli.common.stopping import resumable
from verigym.exit_codes import ExitCode

MODELS = (
    "Local directory or hub id; NAME=MODEL names it in the tables, where A/final and B/final are A and B. The others are "
    "compared with the first."
)
Many = list[str] | None


@json_output
def evaluate(
    output: Annotated[Path, typer.Option(help="Folder for samples, tables and curves.")],
    models: Annotated[Many, typer.Argument(metavar="MODEL", help=MODELS)] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Server with the OpenAI chat-completions API, such as http://HOST:PORT/v1; --model names its model. "
            "URL={options as JSON} sets options of docs/evaluation.md.",
        ),
    ] = None,
    model: Annotated[
        Many, typer.Option(metavar="NAME", help="Model at the endpoint; LABEL=NAME names it in the tables. May be repeated.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Environment variable that holds the endpoint's API key.")
    ] = None,
    data: Annotated[
        Many,
        typer.Option(
            help="Data set, NAME or NAME:SPLIT; the split is test by default. May be repeated.",
            autocompletion=completion.data_sets,
        ),
    ] = None,
    env: Annotated[
        Many,
        typer.Option(
            help="Environment that writes its tasks, NAME or NAME={options as JSON}.", autocompletion=completion.environments
        ),
    ] = None,
    suite: Annotated[
        str | None, typer.Option(help="A suite's name or file, or a training run's file.", autocompletion=completion.suites)
    ] = None,
    data_dir: Annotated[
        Many, typer.Option(help="Read data sets below this folder, not from the hub; NAME=FOLDER for one. May be repeated.")
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Samples a prompt.")] = 1,
    prompts: Annotated[int, typer.Option(min=1, help="Most prompts a source.")] = 200,
    temperature: Annotated[float | None, typer.Option(help="0 for one sample, 1 for several, by default.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a completion.")] = 512,
    thinking_budget: Annotated[
        list[int] | None,
        typer.Option(help="Close the thought after so many tokens; --max-new-tokens is then the answer's. May be repeated."),
    ] = None,
    picker: Annotated[
        Many,
        typer.Option(
            help="Who picks the best of k: ENV or NAME=ENV{options as JSON}. May be repeated.",
            autocompletion=completion.environments,
        ),
    ] = None,
    train_data: Annotated[
        Many, typer.Option(help="Look for prompts in FILE.jsonl[.gz] or NAME:SPLIT. May be repeated.")
    ] = None,
    set_field: Annotated[
        Many, typer.Option("--set", metavar="FIELD=VALUE", help="Any other field of docs/evaluation.md.")
    ] = None,
    as_json: Json = False,
) -> Result:
    """Evaluate models: avg@k, pass@k, maj@k, best-of-n, with intervals. The same command resumes a stopped evaluation.

    A model is a folder, a hub id, or one behind a server: `--endpoint URL --model NAME`.

    When it resumes, samples without a verdict (the grader failed) are graded again; all other texts and verdicts are kept.

    Exit code: 0 done, 1 done but `judge` raised on a sample, or stopped because the endpoint no longer answers, 2 a mistake in
    the call, 3 a source has no sample that could be scored, 130 or 143 stopped.
    """
    from verigym.cli.common.values import validated
    from verigym.envs import UsageError
    from verigym.trainer.config.overrides import apply_overrides

    in_training = [name for name in map(_data_set, train_data or []) if name]
    in_suite = [source["dataset"] for source in (_suite(suite, None) if suite else []) if source.get("dataset")]
    folder, folders = _folders(data_dir, {*(name for name, _ in _splits(data)), *in_training, *in_suite})
    sources = [
        *(
            # nothing is trained here: the other split only has to be another
            {
                "dataset": name,
                "eval_split": split or "test",
                "split": "-" if split == "train" else "train",
                "data_dir": folders.get(name, folder),
            }
            for name, split in _splits(data)
        ),
        *({"environment": name, "options": options} for name, options in map(_options, env or [])),
        *(
            {**source, "data_dir": folders[source["dataset"]]} if source.get("dataset") in folders else source
            for source in (_suite(suite, folder) if suite else [])
        ),
    ]
    if not sources:
        raise UsageError("nothing to evaluate on; give --data, --env or --suite")
    fields: dict[str, Any] = {
        "output": output,
        "models": {**_labelled(models or []), **_served(endpoint, model, api_key_env, models or [])},
        "sources": sources,
        "samples": k,
        "prompts": prompts,
        "temperature": temperature,
        "max_new_tokens": max_new_tokens,
        "thinking_budgets": thinking_budget or [],
        "pickers": dict(map(_named_picker, picker or [])),
        "train_data": train_data or [],
        "train_data_dirs": {name: where for name in in_training if (where := folders.get(name, folder))},
    }
    for override in set_field or []:
        if override.partition("=")[0] in fields:
            raise UsageError(f"--set {override}: that has an option or an argument of its own (verigym eval --help)")
    apply_overrides(fields, set_field or [])
    from verigym.trainer.evaluation.config import EvalConfig

    config = validated(EvalConfig, **fields)
    load_torch()
    from verigym.trainer.evaluation.run import run_evaluation

    with resumable():
        folder = run_evaluation(config).parent
    print((folder / "report.md").read_text(encoding="utf-8"))
    print(f"report: {folder / 'report.json'}\ncurves: {folder / 'curves.png'}")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return Result(_failures(report), {**report, "report": folder / "report.json", "curves": folder / "curves.png"})


def _failures(report: Mapping[str, Any]) -> ExitCode:
    """Say on standard error of what nothing could be scored and where `judge` raised, and return the exit code.

    Args:
        report: the evaluation's, whose page has these and smaller failures as warnings.
    """
    from verigym.terminal import complain
    from verigym.trainer.evaluation.report import raised_line, unscored_line

    for part in report["judge_exceptions"]:
        complain(raised_line(part), "warning")
    whole = [part for part in report["unscored"] if part["unscored"] == part["samples"]]
    for part in whole:
        complain(unscored_line(part))
    if whole:
        return ExitCode.NONE_SCORED
    return ExitCode.FAILED if report["judge_exceptions"] else ExitCode.OK


def _labelled(models: list[str]) -> dict[str, str]:
    """Return the models by name: NAME of NAME=MODEL, else the last part of MODEL that tells it from the others.

    A/final and B/final are A and B.
    """
    from verigym.envs import UsageError

    unnamed = [given for given in models if "=" not in given]
    found: dict[str, str] = {}
    for given in models:
        label, equals, model = given.partition("=")
        if not equals:
            alike = [_parts(other) for other in unnamed if _parts(other)[0] == _parts(given)[0]]
            label, model = _parts(given)[_telling_depth(alike)], given
        if label in found:
            raise UsageError(f"two models are called {label!r}; name them, NAME=MODEL")
        found[label] = model
    return found


def _served(endpoint: str | None, names: Many, api_key_env: str | None, local: list[str]) -> dict[str, Any]:
    """Return the models at the endpoint by name; see `_labelled`.

    Args:
        endpoint: URL, or URL={options as JSON}.
        names: of the models at the endpoint.
        api_key_env: variable with the key.
        local: the other models.
    """
    from verigym.cli.common.values import pairs
    from verigym.envs import UsageError

    if endpoint is None:
        if names or api_key_env:
            raise UsageError(
                f"{'--model' if names else '--api-key-env'} is about a server: give its address with --endpoint URL"
            )
        if not local:
            raise UsageError("nothing to evaluate: name a model's folder, or a server with --endpoint URL --model NAME")
        return {}
    if not names:
        raise UsageError("--endpoint wants the name of a model there: --model NAME")
    url, brace, rest = endpoint.partition("={")
    options = pairs([f"options={{{rest}"], "--endpoint")["options"] if brace else {}
    options |= {} if api_key_env is None else {"api_key_env": api_key_env}
    served = _labelled(names)
    if twice := set(served) & set(_labelled(local)):
        raise UsageError(f"two models are called {min(twice)!r}; name them, NAME=MODEL")
    return {label: {**options, "base_url": url, "model": name} for label, name in served.items()}


def _parts(model: str) -> list[str]:
    """Return the parts of a folder's path or of a hub id, the last one first."""
    path = os.path.abspath(model) if Path(model).is_dir() else model.rstrip("/")
    return path.split("/")[::-1]


def _telling_depth(models: list[list[str]]) -> int:
    """Return the nearest depth at which all models' parts differ; 0 if there is none."""
    depths = range(min(map(len, models)))
    return next((depth for depth in depths if len({parts[depth] for parts in models}) == len(models)), 0)


def _splits(data: Many) -> list[tuple[str, str]]:
    from verigym.datasets_cfg.load import named_split

    return [(name, split or "") for name, split in map(named_split, data or [])]


def _options(given: str) -> tuple[str, Any]:
    """Read NAME or NAME={options as JSON}."""
    from verigym.cli.common.values import pairs

    if "=" not in given:
        return given, {}
    ((name, options),) = pairs([given], "--env").items()
    return name, options


def _named_picker(given: str) -> tuple[str, Any]:
    """Read ENV, ENV{options as JSON}, or either with NAME= before it."""
    from verigym.cli.common.values import pairs

    head, brace, rest = given.partition("{")
    label, equals, environment = head.partition("=")
    environment = environment if equals else label
    options = pairs([f"options={brace}{rest}"], "--picker")["options"] if brace else {}
    return label, {"environment": environment, "options": options}


def _data_set(name: str) -> str:
    """Return the data set that a --train-data names, nothing for a file."""
    from verigym.trainer.evaluation.training_data import is_file

    return "" if is_file(name) else name.rpartition(":")[0]


def _folders(given: Many, known: set[str]) -> tuple[Path | None, dict[str, Path]]:
    """Return the folder of all data sets, if one is given, and those of single ones by name.

    Args:
        given: FOLDER or NAME=FOLDER each.
        known: the data sets that are read.

    Raises:
        UsageError: there is nothing that it could be the folder of, or there are two for one.
    """
    from verigym.envs import UsageError
    from verigym.envs.contract.errors import did_you_mean

    if given and not known:
        raise UsageError(f"--data-dir {given[0]}: no data set is read; give --data, or leave it out")
    of_all: list[str] = []
    found: dict[str, Path] = {}
    for one in given or []:
        name, equals, folder = one.partition("=")
        if not equals or (name not in known and Path(one).is_dir()):
            of_all.append(one)
        elif name not in known or not folder:
            raise UsageError(f"--data-dir {one}: expected FOLDER or NAME=FOLDER of a data set{did_you_mean(name, known)}")
        elif name in found:
            raise UsageError(f"--data-dir gives {name} two folders, {found[name]} and {folder}")
        else:
            found[name] = Path(folder)
    if len(of_all) > 1:
        example = f"--data-dir {min(known)}={of_all[0]}"
        raise UsageError(f"--data-dir is given {len(of_all)} times; say which is of which data set, such as {example}")
    return Path(of_all[0]) if of_all else None, found


def _suite(name: str, data_dir: Path | None) -> list[dict[str, Any]]:
    """Return the sources of a suite or of a training run's file.

    Args:
        name: of the suite or file.
        data_dir: folder of the data sets that do not name their own.
    """
    from verigym.datasets_cfg.suites import load_suite
    from verigym.datasets_cfg.yamlfile import read_document
    from verigym.envs import UsageError

    if name.endswith((".yaml", ".yml")):
        fields = read_document(name).fields
        if "model" in fields and isinstance(fields.get("sources"), list):  # a training run
            here = {} if data_dir is None else {"data_dir": data_dir}
            return [{**here, **source} if "dataset" in source else source for source in fields["sources"]]
        if "model" in fields:
            raise UsageError(f"{name}: expected a suite, or a training run with a list of `sources`")
    return list(load_suite(name).fields(data_dir)["sources"])
