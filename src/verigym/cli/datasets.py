"""`verigym datasets` and `verigym validate`: list data sets, show the tasks made from rows, validate golds, pin revisions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verigym.cli.common import completion
from verigym.cli.common.json_output import Json, Result, json_output, plain
from verigym.cli.common.options import EnvironmentOptions, TimeoutS, Workers
from verigym.exit_codes import ExitCode

if TYPE_CHECKING:
    from verigym.datasets_cfg import PromptDataset
    from verigym.datasets_cfg.overlap import Overlap
    from verigym.datasets_cfg.validate import Report
    from verigym.envs import Prompt

app = typer.Typer(no_args_is_help=True, help="Data sets: list, show, sample, lengths, validate, pin.")


_WHICH: dict[str, Any] = {
    "help": "A data set that comes with verigym, or a YAML file of yours.",
    "autocompletion": completion.data_sets,
}
Dataset = Annotated[str, typer.Argument(metavar="DATASET", **_WHICH)]
DatasetSplit = Annotated[str, typer.Argument(metavar="DATASET[:SPLIT]", **_WHICH)]
DataDir = Annotated[Path | None, typer.Option(help="Read local files below this folder, not the hub.")]
TemplateName = Annotated[str | None, typer.Option(help="Prompt template, such as r1-zero or maths:de, or a YAML file.")]
ShotsSplit = Annotated[str, typer.Option(help="Where the examples come from.")]
Shots = Annotated[int, typer.Option(min=0, max=64, help="Examples before each task, from the train split.")]


@app.command("list")
@json_output
def show_all(
    markdown: Annotated[bool, typer.Option("--markdown", help="As docs/datasets_table.md has it.")] = False,
    as_json: Json = False,
) -> Result:
    """List the data sets."""
    from verigym.datasets_cfg import available, load_config
    from verigym.envs import UsageError

    if markdown and as_json:
        raise UsageError("--markdown and --json are two forms of one list; give one of them")
    configs = {name: load_config(name) for name in available()}
    if markdown:
        from verigym.pages import blocks

        print(*blocks("datasets"))
    else:
        width = max(map(len, configs))
        for name, config in configs.items():
            print(f"{name:<{width}}  {config.environment:<11}  {config.description}")
    shown = ("environment", "description", "licence", "url")
    document = [
        {"name": name, **{one: getattr(config, one) for one in shown}, "splits": list(config.files)}
        for name, config in configs.items()
    ]
    return Result(ExitCode.OK, document)


@app.command()
def show(dataset: Dataset) -> int:
    """Print a data set's description, as it is written."""
    from verigym.datasets_cfg import load_config
    from verigym.datasets_cfg.load import description

    load_config(dataset)
    print(description(dataset), end="")
    return ExitCode.OK


@app.command()
@json_output
def sample(
    dataset: DatasetSplit,
    split: Annotated[
        str | None, typer.Option(help="Which split; without --data-dir, the description's own sample row when left out.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, max=1000, help="How many rows, with --split or --data-dir.")] = 1,
    data_dir: DataDir = None,
    template: TemplateName = None,
    shots: Shots = 0,
    shots_split: ShotsSplit = "train",
    tokenizer: Annotated[str | None, typer.Option(help="Show the text that this tokenizer's chat template makes.")] = None,
    option: EnvironmentOptions = None,
    as_json: Json = False,
) -> Result:
    """Show what rows become: the messages to the model, what an answer is compared with, and the gold with its reward."""
    from verigym.cli.common.values import pairs
    from verigym.datasets_cfg import load, load_config, load_sample
    from verigym.datasets_cfg.load import named_split
    from verigym.envs import UsageError

    dataset, split = named_split(dataset, split)
    options = pairs(option or [], "--option")
    if split is None and data_dir is not None:
        split = next(iter(load_config(dataset).files), None)
    if split is None:
        if rows != 1:
            raise UsageError("--rows needs --split or --data-dir: a description has one sample row")
        if shots:
            raise UsageError("--shots needs --split: a description's own sample row stands alone")
        prompts = load_sample(dataset, options=options, template=template)
    else:
        asked: dict[str, Any] = {"template": template, "shots": shots, "shots_split": shots_split}
        prompts = load(dataset, split, data_dir=data_dir, limit=rows, options=options, **asked)
    codec = None if tokenizer is None else _codec(tokenizer)
    return Result(ExitCode.OK, [_show_row(prompts, prompt, codec) for prompt in prompts])


def _show_row(rows: PromptDataset, prompt: Prompt, codec: Any) -> dict[str, Any]:
    """Print what a row becomes, and return the same as data."""
    row, text = int(str(prompt.metadata["row_index"])) + 1, None
    print(f"--- {rows.source}, row {row}, key {prompt.key}")
    if codec is not None:
        text = codec.tokenizer.decode(codec.encode(prompt))
        print(text)
    else:
        for message in prompt.messages:
            print(f"[{message.role}]\n{message.content}")
    for part, reference in prompt.references.items():
        print(f"[{part} reference] {reference.model_dump_json(exclude_defaults=True)[:2000]}")
    gold = rows.environment.gold(prompt)
    score = None if gold is None else rows.environment.score(prompt, gold)
    if score is None:
        print("[gold] none")
    else:
        print(f"[gold] {gold}\n[its score] {score.reward} {score.status.value}: {score.reason}")
    return {
        "source": rows.source,
        "row": row,
        "key": prompt.key,
        "messages": list(prompt.messages),
        **({} if text is None else {"text": text}),
        "references": dict(prompt.references),
        "gold": gold,
        "score": score,
    }


def _codec(name: str) -> Any:
    from transformers import AutoTokenizer

    from verigym.trainer.models.codec import Codec
    from verigym.trainer.models.path import require_model

    return Codec(AutoTokenizer.from_pretrained(require_model(name)))


@app.command("lengths")
@json_output
def show_lengths(
    dataset: DatasetSplit,
    split: Annotated[str | None, typer.Option(help="Which split; by default train.")] = None,
    data_dir: DataDir = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many rows only.")] = None,
    template: TemplateName = None,
    shots: Shots = 0,
    shots_split: ShotsSplit = "train",
    tokenizer: Annotated[str | None, typer.Option(help="Count tokens with this one; characters by default.")] = None,
    option: EnvironmentOptions = None,
    as_json: Json = False,
) -> Result:
    """Print how long prompts and worked answers are, to choose a run's max_prompt_tokens and max_new_tokens."""
    from verigym.cli.common.values import pairs
    from verigym.datasets_cfg import load
    from verigym.datasets_cfg.lengths import lengths
    from verigym.datasets_cfg.load import named_split
    from verigym.envs.progress import Progress

    dataset, split = named_split(dataset, split)
    wording: dict[str, Any] = {"template": template, "shots": shots, "shots_split": shots_split}
    options = pairs(option or [], "--option")
    rows = load(dataset, split or "train", data_dir=data_dir, limit=limit, options=options, **wording)
    codec = None if tokenizer is None else _codec(tokenizer)
    with Progress("measuring") as progress:
        prompts, answers, unfit = lengths(
            rows,
            lambda prompt: len(prompt.text) if codec is None else len(codec.encode(prompt)),
            lambda text: len(text) if codec is None else len(codec.encode_text(text)),
            lambda done: progress.of_total(done, len(rows)),
        )
    unit = "characters" if codec is None else "tokens"
    document: dict[str, Any] = {"unit": unit, "unfit": unfit}
    print(f"{unit:<12}{'rows':>8}{'median':>8}{'95%':>8}{'longest':>9}  row")
    for label, found in (("prompts", prompts), ("answers", answers)):
        if found.sorted:
            cells = f"{found.at(0.5):>8,}{found.at(0.95):>8,}{found.at(1):>9,}  {found.longest_row + 1:,}"
            print(f"{label:<12}{len(found.sorted):>8,}{cells}")
            figures = {"median": found.at(0.5), "p95": found.at(0.95), "max": found.at(1), "longest_row": found.longest_row + 1}
        else:
            print(f"{label:<12}{0:>8}")
            figures = {}
        document[label] = {"rows": len(found.sorted), **figures}
    if unfit:
        print(f"{unfit:,} rows do not fit the description and are left out; `verigym validate` lists them")
    return Result(ExitCode.OK, document)


@app.command()
@json_output
def validate(
    dataset: DatasetSplit,
    split: Annotated[str | None, typer.Option(help="Which split; by default train.")] = None,
    data_dir: DataDir = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many rows only.")] = None,
    option: EnvironmentOptions = None,
    workers: Workers = None,
    timeout_s: TimeoutS = 30.0,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATASET[:SPLIT]",
            help="Count questions shared with this set too, test by default. May be repeated.",
            autocompletion=completion.data_sets,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Every row that fails, JSON Lines. By default, where they are many, FILE.SPLIT.failures.jsonl for FILE.yaml."
        ),
    ] = None,
    as_json: Json = False,
) -> Result:
    """Check that every row's own gold scores the maximum; show the rows where it does not, and golds that cannot be read.

    If there are more than ten such rows, they are shown by cause, and a file lists their numbers. Golds that are whole texts,
    where short answers are expected, are reported together in one remark. With --data-dir and without --limit, the command also
    counts the prompts that occur both in a training split and in an evaluation split; --against compares with another data set.
    """
    from verigym.cli.common.values import pairs
    from verigym.datasets_cfg import load
    from verigym.datasets_cfg import validate as run
    from verigym.datasets_cfg.load import SUFFIXES, named_split, place_of
    from verigym.datasets_cfg.validate import MAX_LISTED, failure_lines, setting_at_fault, whole_text_line
    from verigym.envs.contract.errors import EnvironmentFailure, UsageError
    from verigym.envs.grading import Grader
    from verigym.envs.progress import Progress
    from verigym.terminal import printable

    dataset, split = named_split(dataset, split)
    rows = load(dataset, split or "train", data_dir=data_dir, limit=limit, options=pairs(option or [], "--option"))
    others = [_open_other(name, data_dir) for name in against or []]
    if rows.config.golds == "all":
        try:
            rows.environment.check()
        except EnvironmentFailure as lack:
            raise UsageError(f"the golds of {rows.config.name} cannot be graded here: {lack}") from None
    with Grader(rows.environment, workers=workers, timeout_s=timeout_s) as grader, Progress("validating") as progress:
        report = run(rows, grader, lambda done: progress.of_total(done, len(rows)))
    for line in failure_lines(report.failures, report.source):
        print(printable(line))
    if fault := setting_at_fault(rows.config, report):
        print(f"{place_of(dataset, *fault)}: field {'.'.join(fault)!r} fits no row; is it the description that is wrong?")
    for line in failure_lines(report.remarks, report.source):
        print(printable(f"remark: {line}"))
    if whole := whole_text_line(report, mendable=bool(rows.config.reference)):
        print(printable(f"remark: {place_of(dataset, 'reference', 'answer')}: {whole}"))
    if out is not None or max(len(report.failures), len(report.remarks)) > MAX_LISTED:
        name = Path(dataset).stem if dataset.endswith(SUFFIXES) else dataset
        _write_rows(report, out or Path(f"{name}.{report.split}.failures.jsonl"))
    shared = list(_warn_of_overlap(dataset, rows, data_dir)) if data_dir is not None and limit is None else []
    shared += [found for other in others if (found := _compare(rows, other)) is not None]
    place = printable(f"{report.dataset}/{report.split}, {report.grader}")
    if report.without_gold or rows.config.golds == "none":
        print(f"{report.without_gold:,} of {report.rows:,} rows have no gold; they load, make a prompt and repeat: {place}")
    graded = report.rows - report.without_gold
    if rows.config.golds != "none":
        share = report.passed / graded if graded else 0.0
        print(f"{report.passed:,} of {graded:,} golds score the maximum ({share:.2%}): {place}")
    document = {
        **{name: getattr(report, name) for name in ("dataset", "split", "grader", "source", "rows", "without_gold", "passed")},
        "failures": [{**plain(one), "row": one.row + 1} for one in report.failures],
        "remarks": [{**plain(one), "row": one.row + 1} for one in report.remarks],
        "whole_texts": len(report.whole_texts),
        "overlaps": shared,
    }
    return Result(ExitCode.FAILED if report.failures else ExitCode.OK, document)


def _warn_of_overlap(dataset: str, rows: PromptDataset, data_dir: Path) -> Iterator[Overlap]:
    """Warn of prompts that the split shares with another of the set, one being for training and one for evaluation."""
    from verigym.datasets_cfg import load
    from verigym.datasets_cfg.overlap import pairs
    from verigym.envs import UsageError
    from verigym.terminal import complain

    for trained, measured in pairs(rows.config, rows.split):
        other = measured if rows.split == trained else trained
        if not rows.config.files[other].parts(data_dir):
            continue
        try:
            there = load(dataset, other, data_dir=data_dir)
        except UsageError as error:
            complain(f"split {other!r} is not compared with {rows.split!r}: {error}", "warning")
            continue
        found = _overlap(*((rows, there) if rows.split == trained else (there, rows)))
        if found:
            complain(found.describe(), "warning")
            yield found


def _overlap(trained: PromptDataset, measured: PromptDataset) -> Overlap | None:
    from verigym.datasets_cfg.overlap import overlap
    from verigym.envs.progress import Progress

    with Progress("comparing") as progress:
        return overlap(trained, measured, on_row=lambda row: progress.of_total(row, len(trained)))


def _open_other(given: str, data_dir: Path | None) -> PromptDataset:
    """Open a data set to compare with: below the data directory where its file is there, else on the hub."""
    from verigym.datasets_cfg import load, load_config
    from verigym.datasets_cfg.load import named_split

    name, split = named_split(given)
    file = load_config(name).files.get(split or "test")
    local = data_dir is not None and file is not None and bool(file.parts(data_dir))
    return load(name, split or "test", data_dir=data_dir if local else None)


def _compare(rows: PromptDataset, other: PromptDataset) -> Overlap | None:
    """Warn of questions that two data sets share, or say that there are none; return what they share."""
    from verigym.terminal import complain

    shared = _overlap(rows, other)
    if shared is not None:
        complain(shared.describe(), "warning")
    else:
        print(f"no question of {other.config.name}/{other.split} stands in {rows.config.name}/{rows.split}")
    for one in (rows, other):
        if one.config.question is None and not one.config.generated:
            complain(f"{one.config.name} has no `question`, so its whole prompts are compared", "warning")
    return shared


def _write_rows(report: Report, out: Path) -> None:
    from verigym.terminal import complain

    try:
        out.write_text("".join(f"{line}\n" for line in report.rows_as_json()), encoding="utf-8", errors="replace")
    except OSError as error:  # the verdict has been worked out and is to be seen all the same
        complain(f"cannot write {out}: {error.strerror}; name another file with --out", "warning")
        return
    print(f"every one of these rows: {out}")


@app.command()
@json_output
def pin(
    dataset: Dataset,
    data_dir: Annotated[Path | None, typer.Option(help="Write the sha256 of the local files below this folder.")] = None,
    hub: Annotated[
        bool | None, typer.Option("--hub/--no-hub", help="Ask the hub; by default where there is no --data-dir.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where the description goes; onto a YAML file of yours by default.")] = None,
    as_json: Json = False,
) -> Result:
    """Write the revision of the data into the description: the newest commit on the hub, the sha256 of local files, or both."""
    from verigym.datasets_cfg import load_config
    from verigym.datasets_cfg.load import SUFFIXES, description
    from verigym.datasets_cfg.pin import file_digests, newest, pin_files, pin_revision
    from verigym.envs import UsageError

    config, text = load_config(dataset), description(dataset)
    if out is None and not dataset.endswith(SUFFIXES):
        raise UsageError(
            f"{dataset!r} comes with verigym; name a file of yours for the pinned description: --out {dataset}.yaml"
        )
    if config.generated:
        raise UsageError(f"data set {dataset!r} is written by its environment, whose version every score names")
    document: dict[str, Any] = {"files": {}, "hub": {}}
    if data_dir is not None:
        by_split = file_digests(config, data_dir)
        document["files"] = {split: {"sha256": value} for split, value in by_split.items()}
        text = pin_files(text, by_split)
        for split, value in by_split.items():
            print(f"files.{split}.sha256: {value}")
    if hub if hub is not None else data_dir is None:
        if config.hub is None:
            raise UsageError(f"data set {dataset!r} is not on the hub; pass --data-dir to pin its local files")
        revision = newest(config.hub.path)
        text = pin_revision(text, revision)
        document["hub"] = {"revision": revision}
        print(f"hub.revision: {revision}")
    place = out or Path(dataset)
    try:
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {place}: {error.strerror}") from None
    load_config(place)
    print(f"written: {place}")
    return Result(ExitCode.OK, {**document, "written": place})
