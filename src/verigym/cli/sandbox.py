"""`verigym sandbox`: shows this machine's isolation, tests it with attacks, and runs or tests one untrusted program."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verigym.cli.common import completion
from verigym.cli.common.json_output import Json, Result, json_output
from verigym.exit_codes import ExitCode
from verigym.sandbox.spec import Limits
from verigym.terminal import complain

if TYPE_CHECKING:
    from verigym.sandbox import RunResult

app = typer.Typer(no_args_is_help=True, help="The sandbox: what this machine gives, whether it holds, run or test a file.")

_ENDINGS = {".py": "python", ".sh": "bash", ".c": "c", ".cpp": "cpp", ".cc": "cpp", ".js": "javascript", ".mjs": "javascript"}
_OURS = Path("-")
_DEFAULT = Limits()

Backend = Annotated[
    str,
    typer.Option(
        "--backend", help="Name of the back end, such as local, bubblewrap or docker.", autocompletion=completion.back_ends
    ),
]
BackendOptions = Annotated[
    list[str] | None, typer.Option("--backend-option", help="An option of the back end, NAME=VALUE. May be repeated.")
]
AllowUnsafe = Annotated[bool, typer.Option("--allow-unsafe", help="Run even where nothing isolates the program.")]
WallS = Annotated[float, typer.Option(min=0.001, help="Seconds it may take.")]
MemoryMb = Annotated[int, typer.Option(min=32, help="MiB that each of its processes may use.")]
LanguageName = Annotated[
    str | None,
    typer.Option(
        "--language",
        help="python, bash, c, cpp or javascript; by default told from the file's ending.",
        autocompletion=completion.words("python", "bash", "c", "cpp", "javascript"),
    ),
]


def _open(backend: str, options: list[str] | None, allow_unsafe: bool) -> Any:
    from verigym.cli.common.values import pairs
    from verigym.envs.contract.errors import UsageError
    from verigym.sandbox import open_sandbox

    chosen = pairs(options or [], "--backend-option")
    if allow_unsafe:
        chosen["allow_unsafe"] = True
    try:
        return open_sandbox(backend, **chosen)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _read_bytes(file: Path) -> bytes:
    """Return a file's content; - is standard input."""
    from verigym.envs.contract.errors import UsageError, near_file

    try:
        return sys.stdin.buffer.read() if file == _OURS else file.read_bytes()
    except OSError as error:
        hint = near_file(file) if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"cannot read {file}: {error.strerror}{hint}") from None


def _read(file: Path) -> str:
    from verigym.envs.contract.errors import UsageError

    try:
        return _read_bytes(file).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {file}: byte {error.start} is no UTF-8 text") from None


def _language(file: Path, given: str | None) -> str:
    from verigym.envs.contract.errors import UsageError

    language = given or ("python" if file == _OURS else _ENDINGS.get(file.suffix))
    if language is None:
        raise UsageError(f"{file}: no language has the ending {file.suffix!r} ({' '.join(_ENDINGS)}); name it with --language")
    return language


@app.command()
@json_output
def doctor(as_json: Json = False) -> Result:
    """Show which layers of isolation this machine provides, and why the others are missing."""
    from rich.table import Column, Table
    from rich.text import Text

    from verigym.envs.console import print_table
    from verigym.sandbox.checks.doctor import best_level, probe_layers

    layers = probe_layers()
    table = Table("layer", "here", *(Column(title, overflow="fold") for title in ("detail", "to have it")), box=None)
    for layer in layers:
        cells = (layer.name, "yes" if layer.available else "no", layer.detail, "" if layer.available else layer.remedy)
        table.add_row(*map(Text, cells))
    print_table(table)
    level, reason = best_level(layers)
    print(f"level {level}: {reason}")
    document = {"level": level, "reason": reason, "layers": layers}
    return Result(ExitCode.OK if level >= 2 else ExitCode.FAILED, document)


@app.command("self-check")
@json_output
def self_check(
    backend: Backend = "local",
    backend_option: BackendOptions = None,
    allow_unsafe: AllowUnsafe = False,
    as_json: Json = False,
) -> Result:
    """Check a sandbox back end: verigym's own attacks must fail in it, and honest but unusual programs must work."""
    from rich.table import Table
    from rich.text import Text

    from verigym.envs.console import print_table
    from verigym.envs.progress import Progress
    from verigym.sandbox import SandboxFailure
    from verigym.sandbox.checks.selfcheck import self_check as check

    box = _open(backend, backend_option, allow_unsafe)
    try:
        with Progress("attacking") as progress:
            report = check(box, progress=progress.of_total)
    except SandboxFailure as error:
        print(f"error: {error}", file=sys.stderr)
        return Result(ExitCode.FAILED, {"backend": backend, "error": str(error), "probes": []})
    table = Table("probe", "group", "expected", "got", "held", box=None)
    for row in report.results:
        cells = (row.name, row.group, row.expected, row.got, "yes" if row.passed else f"NO: {row.detail[:200]}")
        table.add_row(*map(Text, cells))
    print_table(table)
    held = sum(row.passed for row in report.results)
    print(f"{held} of {len(report.results)} probes held: {backend}, level {box.level}")
    document = {"backend": backend, "level": box.level, "passed": report.passed, "probes": report.results}
    return Result(ExitCode.OK if report.passed else ExitCode.FAILED, document)


@app.command(no_args_is_help=True)
@json_output
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The program; - reads it from standard input, as Python.")],
    args: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="Its arguments. Those that begin with - come after --.")
    ] = None,
    stdin: Annotated[
        Path | None, typer.Option(help="File with its standard input, empty by default; - passes ours on.")
    ] = None,
    language: LanguageName = None,
    file_in: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            metavar="[NAME=]PATH",
            help="A file to lay into its work folder, by default under PATH itself. May be repeated.",
        ),
    ] = None,
    collect: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A file it writes, to be copied into --out. May be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the files of --collect.")] = None,
    wall_s: WallS = _DEFAULT.wall_s,
    cpu_s: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds of CPU time, all processes together; by default as --wall-s.")
    ] = None,
    memory_mb: MemoryMb = _DEFAULT.memory_mb,
    processes: Annotated[int, typer.Option(min=1, help="Processes and threads at the same time.")] = _DEFAULT.processes,
    output_kb: Annotated[int, typer.Option(min=1, help="KiB of standard output, and of standard error.")] = _DEFAULT.output_kb,
    files_mb: Annotated[int, typer.Option(min=1, help="MiB of files in its work folder.")] = _DEFAULT.files_mb,
    inodes: Annotated[int, typer.Option(min=1, help="Files and folders in its work folder.")] = _DEFAULT.inodes,
    backend: Backend = "local",
    backend_option: BackendOptions = None,
    allow_unsafe: AllowUnsafe = False,
    as_json: Json = False,
) -> Result:
    """Run one untrusted program: verigym sandbox run [OPTIONS] FILE -- ARGS.

    The program's output is printed as it is; the last line on standard error says how it ended. With --json, one object holds
    both.

    Exit code: 0 the program succeeded, 1 it did not, 2 a mistake in the call.
    """
    from verigym.envs.contract.errors import UsageError
    from verigym.sandbox import Program, RunResult, RunStatus, SandboxFailure

    if bool(collect) != (out is not None):
        raise UsageError("--collect NAME and --out DIR belong together: the files to take out, and where to")
    if stdin == file == _OURS:
        raise UsageError("- is given for the program and for its standard input; one of them must be a file")
    try:
        limits = Limits(
            wall_s=wall_s,
            cpu_s=cpu_s or wall_s,
            memory_mb=memory_mb,
            processes=processes,
            output_kb=output_kb,
            files_mb=files_mb,
            inodes=inodes,
        )
        program = Program(
            source=_read(file), language=_language(file, language), args=args or (), files=dict(map(_laid_in, file_in or []))
        )
        text = b"" if stdin is None else _read_bytes(stdin)
        box = _open(backend, backend_option, allow_unsafe)
        result = box.run(program, text, limits, collect or ())
    except ValueError as error:
        raise UsageError(str(error)) from None
    except SandboxFailure as error:
        print(f"error: infra: {error}", file=sys.stderr)
        return Result(ExitCode.FAILED, _document(RunResult(status=RunStatus.INFRA, message=error.message)))
    if not as_json:
        sys.stdout.buffer.write(result.stdout)
        sys.stdout.flush()
        sys.stderr.buffer.write(result.stderr)
    if out is not None:
        _take_out(result.files, collect or [], out)
    if _OURS not in (stdin, file) and _waiting():
        complain("standard input was not given to the program; --stdin - passes it on", "note")
    print(
        f"{result.status}{_why(result)}: {result.wall_s:.3f} s, {result.cpu_s:.3f} s CPU, {result.memory_mb:.0f} MiB",
        file=sys.stderr,
    )
    return Result(ExitCode.OK if result.ok else ExitCode.FAILED, _document(result))


def _why(result: RunResult) -> str:
    """Return what happened, in one line; nothing where the compiler has said it."""
    said = "" if result.status == "compile" and result.stderr else result.message.partition("\n")[0]
    return f" ({said})" if said else ""


def _laid_in(given: str) -> tuple[str, bytes]:
    """Return the path in the work folder and the content of a file given as [NAME=]PATH."""
    name, equals, rest = given.partition("=")
    path = Path(rest if equals else given)
    below = not path.is_absolute() and ".." not in path.parts
    return (name if equals else str(path) if below else path.name), _read_bytes(path)


def _take_out(files: Mapping[str, bytes], wanted: list[str], folder: Path) -> None:
    from verigym.envs.contract.errors import UsageError

    for name, content in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
    if lacking := [name for name in wanted if name not in files]:
        complain(f"{', '.join(lacking)}: not there, no regular file, or larger than the output limit (--output-kb)", "note")


def _waiting() -> bool:
    """Return whether a pipe or a file on our standard input holds something that nobody has read."""
    try:
        descriptor = sys.stdin.fileno()
        kind = os.fstat(descriptor)
        if stat.S_ISREG(kind.st_mode):
            return kind.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
        if not stat.S_ISFIFO(kind.st_mode):
            return False
        held = bytearray(4)
        fcntl.ioctl(descriptor, termios.FIONREAD, held)
        return any(held)
    except (OSError, ValueError, AttributeError):  # closed, or none
        return False


def _document(result: RunResult) -> dict[str, Any]:
    r"""Return a result as data. Bytes that are no UTF-8 are shown as \xNN."""
    plain = ("status", "exit_code", "signal", "wall_s", "cpu_s", "memory_mb", "message")
    shown = {name: getattr(result, name) for name in plain}
    shown |= {name: getattr(result, name).decode("utf-8", "backslashreplace") for name in ("stdout", "stderr")}
    return {**shown, "files": sorted(result.files)}


@app.command()
@json_output
def test(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The program.")],
    tests: Annotated[Path, typer.Option(help="JSON: a list of tests, or an object with tests, setup, limits and policy.")],
    language: LanguageName = None,
    backend: Backend = "local",
    backend_option: BackendOptions = None,
    allow_unsafe: AllowUnsafe = False,
    as_json: Json = False,
) -> Result:
    """Test one program as the `code` environment does, and print the score as indented JSON; with --json, on one line.

    Exit code: 0 all tests passed, 1 a test failed, 2 a mistake in the call.
    """
    from verigym.cli.common.values import pairs
    from verigym.envs import load, strict_json
    from verigym.envs.contract.errors import UsageError

    try:
        given = strict_json.loads(_read(tests))
    except ValueError as error:
        raise UsageError(f"{tests} is not JSON: {error}") from None
    reference = given if isinstance(given, dict) else {"tests": given}
    reference.setdefault("language", _language(file, language))
    options = pairs(backend_option or [], "--backend-option")
    unsafe = options.pop("allow_unsafe", allow_unsafe)
    environment = load("code", extract="all", backend=backend, backend_options=options, allow_unsafe=unsafe)
    try:
        prompt = environment.prompt(f"Test of {file.name}.", **reference)
    except UsageError as error:
        raise UsageError(f"{tests}: {error}") from None
    score = environment.score(prompt, _read(file))
    if not as_json:
        print(json.dumps(score.model_dump(mode="json"), indent=2))
    return Result(ExitCode.OK if score.reward == environment.reward_range[1] else ExitCode.FAILED, score)
