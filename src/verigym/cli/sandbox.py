"""`verigym sandbox`: shows and attacks this machine's isolation, and runs or tests one file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from verigym.exit_codes import ExitCode

app = typer.Typer(no_args_is_help=True, help="The sandbox: what this machine gives, whether it holds, run or test a file.")

_ENDINGS = {".py": "python", ".sh": "bash", ".c": "c", ".cpp": "cpp", ".cc": "cpp", ".js": "javascript", ".mjs": "javascript"}

Backend = Annotated[str, typer.Option("--backend", help="Name of the back end, such as local, bubblewrap or docker.")]
BackendOptions = Annotated[
    list[str] | None, typer.Option("--backend-option", help="An option of the back end, NAME=VALUE. May be repeated.")
]
AllowUnsafe = Annotated[bool, typer.Option("--allow-unsafe", help="Run even where nothing isolates the program.")]
WallS = Annotated[float, typer.Option(min=0.001, help="Seconds it may take.")]
MemoryMb = Annotated[int, typer.Option(min=1, help="MiB it may use.")]
LanguageName = Annotated[str | None, typer.Option("--language", help="By default told from the file's name.")]


def _open(backend: str, options: list[str] | None, allow_unsafe: bool) -> Any:
    from verigym.cli.args import pairs
    from verigym.envs.contract.errors import UsageError
    from verigym.sandbox import open_sandbox

    chosen = pairs(options or [], "--backend-option")
    if allow_unsafe:
        chosen["allow_unsafe"] = True
    try:
        return open_sandbox(backend, **chosen)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _read(file: Path) -> str:
    from verigym.envs.contract.errors import UsageError

    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from None


def _language(file: Path, given: str | None) -> str:
    from verigym.envs.contract.errors import UsageError

    language = given or _ENDINGS.get(file.suffix)
    if language is None:
        raise UsageError(f"{file}: no language is known for {file.suffix!r}; name it with --language")
    return language


@app.command()
def doctor() -> int:
    """Show which layers of isolation this machine gives, and why not the others."""
    from rich.console import Console
    from rich.table import Table

    from verigym.sandbox.checks.doctor import best_level, probe_layers

    layers = probe_layers()
    table = Table("layer", "here", "detail", "to have it", box=None)
    for layer in layers:
        table.add_row(layer.name, "yes" if layer.available else "no", layer.detail, "" if layer.available else layer.remedy)
    console = Console(soft_wrap=True)
    console.print(table)
    level, reason = best_level(layers)
    console.print(f"level {level}: {reason}", markup=False)
    return ExitCode.OK if level >= 2 else ExitCode.FAILED


@app.command("self-check")
def self_check(backend: Backend = "local", backend_option: BackendOptions = None, allow_unsafe: AllowUnsafe = False) -> int:
    """Attack the back end with the library's own panel, and check that honest but tricky programs run."""
    from rich.console import Console
    from rich.table import Table

    from verigym.grade.progress import Progress
    from verigym.sandbox import SandboxFailure
    from verigym.sandbox.checks.selfcheck import self_check as check

    box = _open(backend, backend_option, allow_unsafe)
    try:
        with Progress("attacking") as progress:
            report = check(box, progress=lambda done, total: progress.update(done, done / total))
    except SandboxFailure as error:
        print(f"error: {error}", file=sys.stderr)
        return ExitCode.FAILED
    table = Table("probe", "group", "expected", "got", "held", box=None)
    for row in report.results:
        table.add_row(row.name, row.group, row.expected, row.got, "yes" if row.passed else f"NO: {row.detail[:200]}")
    Console(soft_wrap=True).print(table)
    held = sum(row.passed for row in report.results)
    print(f"{held} of {len(report.results)} probes held: {backend}, level {box.level}")
    return ExitCode.OK if report.passed else ExitCode.FAILED


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The program.")],
    stdin: Annotated[Path | None, typer.Option(help="File with its standard input; - passes ours on.")] = None,
    language: LanguageName = None,
    wall_s: WallS = 10.0,
    memory_mb: MemoryMb = 512,
    backend: Backend = "local",
    backend_option: BackendOptions = None,
    allow_unsafe: AllowUnsafe = False,
) -> int:
    """Run one untrusted program. Its output goes to ours; how it ended is the last line on standard error.

    Exit code: 0 it ended well, 1 it did not, 2 a mistake in the call.
    """
    from verigym.envs.contract.errors import UsageError
    from verigym.sandbox import Limits, Program, SandboxFailure

    text = b""
    if stdin is not None:
        text = sys.stdin.buffer.read() if str(stdin) == "-" else _read(stdin).encode()
    program = Program(source=_read(file), language=_language(file, language))
    box = _open(backend, backend_option, allow_unsafe)
    try:
        result = box.run(program, text, Limits(wall_s=wall_s, cpu_s=wall_s, memory_mb=memory_mb))
    except ValueError as error:
        raise UsageError(str(error)) from None
    except SandboxFailure as error:
        print(f"error: infra: {error}", file=sys.stderr)
        return ExitCode.FAILED
    sys.stdout.buffer.write(result.stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(result.stderr)
    why = f" ({result.message})" if result.message else ""
    print(f"{result.status}{why}: {result.wall_s:.3f} s, {result.cpu_s:.3f} s CPU, {result.memory_mb:.0f} MiB", file=sys.stderr)
    return ExitCode.OK if result.ok else ExitCode.FAILED


@app.command()
def test(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The program.")],
    tests: Annotated[Path, typer.Option(help="JSON: a list of tests, or an object with tests, setup, limits and policy.")],
    language: LanguageName = None,
    backend: Backend = "local",
    backend_option: BackendOptions = None,
    allow_unsafe: AllowUnsafe = False,
) -> int:
    """Test one program as the `code` environment does, and print the score as JSON.

    Exit code: 0 all tests passed, 1 not, 2 a mistake in the call.
    """
    from verigym.cli.args import pairs
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
    print(json.dumps(score.model_dump(mode="json"), indent=2))
    return ExitCode.OK if score.reward == environment.reward_range[1] else ExitCode.FAILED
