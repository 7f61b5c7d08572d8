"""`verigym eval`: k samples a held-out prompt, by one model or several side by side. torch is imported when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

MODELS = "Local directory or hub id; NAME=MODEL names it in the tables. The others are compared with the first."
Many = list[str] | None


def evaluate(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help=MODELS)],
    output: Annotated[Path, typer.Option(help="Folder for samples, tables and curves.")],
    data: Annotated[
        Many, typer.Option(help="Data set, NAME or NAME:SPLIT; the split is test by default. May be repeated.")
    ] = None,
    env: Annotated[Many, typer.Option(help="Environment that writes its tasks, NAME or NAME={options as JSON}.")] = None,
    suite: Annotated[str | None, typer.Option(help="A suite's name or file, or a training run's file.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Read data sets below this folder, not from the hub.")] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Samples a prompt.")] = 1,
    prompts: Annotated[int, typer.Option(min=1, help="Most prompts a source.")] = 200,
    temperature: Annotated[float | None, typer.Option(help="0 for one sample, 1 for several, by default.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a completion.")] = 512,
    thinking_budget: Annotated[
        list[int] | None,
        typer.Option(help="Close the thought after so many tokens; --max-new-tokens is then the answer's. May be repeated."),
    ] = None,
    picker: Annotated[
        Many, typer.Option(help="Who picks the best of k: ENV or NAME=ENV{options as JSON}. May be repeated.")
    ] = None,
    train_data: Annotated[
        Many, typer.Option(help="Look for prompts in FILE.jsonl[.gz] or NAME:SPLIT. May be repeated.")
    ] = None,
    set_field: Annotated[
        Many, typer.Option("--set", metavar="FIELD=VALUE", help="Any other field of docs/evaluation.md.")
    ] = None,
) -> int:
    """Evaluate models: avg@k, pass@k, maj@k, best-of-n, with intervals. A stopped evaluation goes on with the same command."""
    from verigym.cliargs import validated
    from verigym.envs import UsageError
    from verigym.trainer.placing import apply_override

    sources = [
        *(
            # nothing is trained here: the other split only has to be another
            {
                "dataset": name,
                "eval_split": split or "test",
                "split": "-" if split == "train" else "train",
                "data_dir": data_dir,
            }
            for name, split in _splits(data)
        ),
        *({"environment": name, "options": options} for name, options in map(_options, env or [])),
        *(_suite(suite, data_dir) if suite else []),
    ]
    if not sources:
        raise UsageError("nothing to evaluate on; give --data, --env or --suite")
    fields: dict[str, Any] = {
        "output": output,
        "models": _labelled(models),
        "sources": sources,
        "samples": k,
        "prompts": prompts,
        "temperature": temperature,
        "max_new_tokens": max_new_tokens,
        "thinking_budgets": thinking_budget or [],
        "pickers": dict(map(_named_picker, picker or [])),
        "train_data": train_data or [],
    }
    for override in set_field or []:
        apply_override(fields, override)
    from verigym.trainer.evaluation.config import EvalConfig

    config = validated(EvalConfig, **fields)
    print("loading torch and transformers", file=sys.stderr, flush=True)
    from verigym.trainer.evaluation.run import run_evaluation
    from verigym.trainer.progress import Interrupted

    try:
        folder = run_evaluation(config).parent
    except Interrupted as stop:
        print(f"{stop}; go on with the same command", file=sys.stderr)
        return stop.exit_code
    print((folder / "report.md").read_text(encoding="utf-8"))
    print(f"report: {folder / 'report.json'}\ncurves: {folder / 'curves.png'}")
    return 0


def _labelled(models: list[str]) -> dict[str, str]:
    from verigym.envs import UsageError

    found: dict[str, str] = {}
    for given in models:
        label, equals, model = given.partition("=")
        if not equals:
            label, model = given.rstrip("/").rpartition("/")[2], given
        if label in found:
            raise UsageError(f"two models are called {label!r}; name them, NAME=MODEL")
        found[label] = model
    return found


def _splits(data: Many) -> list[tuple[str, str]]:
    return [(name, split) for name, _, split in (given.partition(":") for given in data or [])]


def _options(given: str) -> tuple[str, Any]:
    """Read NAME or NAME={options as JSON}."""
    from verigym.cliargs import pairs

    if "=" not in given:
        return given, {}
    ((name, options),) = pairs([given], "--env").items()
    return name, options


def _named_picker(given: str) -> tuple[str, Any]:
    """Read ENV, ENV{options as JSON}, or either with NAME= before it."""
    from verigym.cliargs import pairs

    head, brace, rest = given.partition("{")
    label, equals, environment = head.partition("=")
    environment = environment if equals else label
    options = pairs([f"options={brace}{rest}"], "--picker")["options"] if brace else {}
    return label, {"environment": environment, "options": options}


def _suite(name: str, data_dir: Path | None) -> Any:
    from verigym.datasets_cfg.suites import load_suite
    from verigym.datasets_cfg.yamlfile import read_document
    from verigym.envs import UsageError

    if name.endswith((".yaml", ".yml")):
        fields = read_document(name).fields
        if "model" in fields and isinstance(fields.get("sources"), list):  # a training run
            return fields["sources"]
        if "model" in fields:
            raise UsageError(f"{name}: expected a suite, or a training run with a list of `sources`")
    return load_suite(name).fields(data_dir)["sources"]
