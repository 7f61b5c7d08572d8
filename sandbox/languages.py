"""The table of languages: for each, how programs are compiled and started, and which packages to install.

A language needs only an entry in the table. `register_language` adds an entry in this process, for example:

    register_language(Language(name="lua", source="main.lua", run=("lua", "{source}"), needs="apt-get install lua5.4"))

Reasons for the settings, measured on Linux 6.18 with gcc 12 and node 20:

* Stack. Programs in all languages except Python get an unlimited stack, so only memory limits recursion, as on online judges. A
  million frames of a C++ function need 70 MiB. A large finite limit would also be the size of each thread's stack: with 256 MiB
  of stack, four threads do not start in 512 MiB of memory. Under "unlimited" a thread gets 2 MiB.
* Node's address space: Node reserves 0.7 GiB when idle, and a WebAssembly memory reserves 10 GiB more; hardly any of that is
  used. So Node's data segment is limited (RLIMIT_DATA). The heap of JavaScript objects has a lower limit, so that V8 collects
  garbage in time.
* Node's threads: Node starts seven threads at first, and four more at the first asynchronous file access. If it cannot start
  them, it hangs. So `own_threads` is added to the program's limit on processes.
* Node's stack: V8 takes the stack size from `--stack-size` without checking the real limit. On an unlimited stack, 64 MiB hold
  a million frames, and endless recursion is a RangeError. On a stack of 8 MiB, endless recursion would be a segmentation fault,
  so V8's default size is kept there.
* Compilers: g++ -O2 with <bits/stdc++.h> takes 2 s and 230 MiB.
"""

from __future__ import annotations

import difflib
import math
import os
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from verigym.sandbox.arguments import checked, checked_class
from verigym.sandbox.job import Job
from verigym.sandbox.spec import Limits, Program, RunResult, RunStatus, SandboxFailure

TOOL_DIRECTORIES = ("/usr/local/bin", "/usr/bin", "/bin")
"""Directories in which compilers and interpreters are looked up; they are visible in the sandbox."""
_VISIBLE = ("/usr/", "/bin/")
_UNLIMITED = resource.RLIM_INFINITY
_HEAP_RESERVE_MB = 64  # of node's memory, for all that is not JavaScript objects
_LEAST_HEAP_MB = 16
_STACK_KB = 65500
_MOST_TEXT = 4000
_PYTHON = "{python}"


@checked_class
@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """How programs of one language are compiled and run.

    In the command templates, `{source}` and `{binary}` are file names in the work directory. `{heap_mb}` and `{stack_kb}` come
    from the limits. The first word of a command is the tool (compiler or interpreter), searched in `TOOL_DIRECTORIES`.
    """

    name: str
    source: str
    """File name of the source, such as main.c."""
    run: tuple[str, ...]
    """Template of the command; the program's arguments follow. `{python}` stands for the warm worker's own Python."""
    compile: tuple[str, ...] | None = None
    """Template of the compiler's command; None for an interpreted language."""
    binary: str | None = None
    """File name of the compiler's output."""
    limit_address_space: bool = True
    """Whether the memory limit applies to the address space. False for runtimes that reserve or map far more than they use: the
    limit then applies to writable memory (RLIMIT_DATA) and to resident memory."""
    own_threads: int = 0
    """Threads of the runtime itself, added to the limit of processes."""
    needs: str = ""
    """Advice on what to install when the tool is missing."""
    build_limits: Limits = Limits(wall_s=30, cpu_s=10, memory_mb=1024, output_kb=1024, files_mb=256)
    """Limits of the compile step, separate from those of runs. Wall time is generous because machines are shared."""
    env: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.compile is None) != (self.binary is None) or not self.run:
            raise ValueError(f"language {self.name!r}: expected a run command, and compile and binary both or neither")

    @property
    def tool(self) -> str:
        """The name of the compiler or interpreter that this language needs."""
        return (self.compile or self.run)[0]


LANGUAGES: dict[str, Language] = {}
"""Name -> language."""
_aliases: dict[str, str] = {}


@checked
def register_language(language: Language) -> Language:
    """Add `language` to this process, replacing a language of the same name, and return it.

    Raises:
        ValueError: the name or an alias of `language` belongs to another language.
    """
    names = [name.lower() for name in (language.name, *language.aliases)]
    taken = [name for name in names if _aliases.get(name, language.name) != language.name]
    if taken:
        raise ValueError(f"language {language.name!r}: the name {taken[0]!r} belongs to {_aliases[taken[0]]!r}")
    LANGUAGES[language.name] = language
    _aliases.update(dict.fromkeys(names, language.name))
    return language


@checked
def language(name: str) -> Language:
    """Return the language with that name or alias, ignoring case.

    Raises:
        ValueError: there is no such language.
    """
    known = _aliases.get(name.strip().lower())
    if known is None:
        close = difflib.get_close_matches(name.strip().lower(), _aliases, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"unknown language {name!r}{hint} Known: {', '.join(sorted(LANGUAGES))}")
    return LANGUAGES[known]


def tool(language: Language) -> str:
    """Return the path of the compiler or interpreter of `language`, which must be visible in the sandbox.

    Raises:
        SandboxFailure: it is not installed; the message says what to install.
    """
    for directory in TOOL_DIRECTORIES:
        path = os.path.join(directory, language.tool)
        # A link out of the visible directories would dangle inside.
        if os.access(path, os.X_OK) and os.path.realpath(path).startswith(_VISIBLE):
            return path
    raise missing(language)


def missing(language: Language) -> SandboxFailure:
    """Return the exception to raise if the compiler or interpreter of `language` is missing."""
    advice = f" Install it: {language.needs}" if language.needs else ""
    where = ", ".join(TOOL_DIRECTORIES)
    return SandboxFailure(f"{language.name} needs {language.tool!r}, which is not in {where}.{advice}", retryable=False)


def job(
    program: Program,
    stdin: bytes,
    limits: Limits,
    collect: tuple[str, ...] = (),
    find: Callable[[Language], str] = tool,
) -> Job:
    """Return the job that runs `program`. A program in a compiled language must have been built before.

    Args:
        program: the program.
        stdin: its standard input.
        limits: its resource limits; the size of the program's own files is added to the limit on file sizes.
        collect: relative paths of the files to bring back.
        find: returns the path of a language's compiler or interpreter in this back end.

    Raises:
        SandboxFailure: the interpreter is not installed.
        ValueError: a prelude is given for another language than Python.
    """
    known = language(program.language)
    if program.prelude != "none" and known.run[0] != _PYTHON:
        raise ValueError(f"prelude={program.prelude!r} is for Python, not for {known.name}")
    if known.compile is None:
        files = {**program.files, known.source: source_bytes(program.source)}
    else:
        files = dict(program.files)
    if known.run[0] == _PYTHON:
        return Job(
            mode="program",
            source=known.source,
            prelude=program.prelude,
            argv=tuple(program.args),
            files=files,
            stdin=stdin,
            limits=with_room(limits, files),
            collect=collect,
            env=known.env,
            address_space=known.limit_address_space,
        )
    first = f"./{known.binary}" if known.run[0] == "{binary}" else find(known)
    return Job(
        mode="exec",
        argv=(first, *_filled(known, known.run[1:], limits), *program.args),
        executable=known.binary,
        files=files,
        stdin=stdin,
        limits=with_room(replace(limits, processes=limits.processes + known.own_threads), files),
        collect=collect,
        env=known.env,
        address_space=known.limit_address_space,
        stack_mb=_UNLIMITED,
    )


def build_job(program: Program, find: Callable[[Language], str] = tool) -> Job | None:
    """Return the job that compiles `program`; None if its language is not compiled.

    Args:
        program: the program.
        find: returns the path of a language's compiler in this back end.

    Raises:
        SandboxFailure: the compiler is not installed.
    """
    known = language(program.language)
    if known.compile is None or known.binary is None:
        return None
    files = {**program.files, known.source: source_bytes(program.source)}
    return Job(
        mode="exec",
        argv=(find(known), *_filled(known, known.compile[1:], known.build_limits)),
        files=files,
        limits=with_room(known.build_limits, files),
        collect=(known.binary,),
        collect_mb=known.build_limits.files_mb,
        env=known.env,
        stack_mb=_UNLIMITED,
    )


def built(program: Program, result: RunResult) -> tuple[Program | None, RunResult]:
    """Return the compiled program and the compiler's result.

    The status is COMPILE also if the compiler exceeded a limit, since the source is the cause.

    Args:
        program: the source program.
        result: the result of the compiler's run.

    Returns:
        The program with its executable in `files`, or None if the result's status is COMPILE; and the result.
    """
    known = language(program.language)
    binary = result.files.get(known.binary or "")
    text = (result.stderr + result.stdout).decode("utf-8", "replace").strip()[:_MOST_TEXT]
    if result.ok and binary:
        return replace(program, files={**program.files, str(known.binary): binary}), replace(result, files={}, message=text)
    if result.ok:
        text = f"{known.tool} left no regular file {known.binary!r} within {known.build_limits.files_mb} MiB. {text}"
    elif result.status is not RunStatus.RUNTIME:
        text = f"{known.tool} ran into {result.message}. {text}"
    return None, replace(result, status=RunStatus.COMPILE, files={}, message=text.strip() or f"{known.tool}: {result.message}")


def source_bytes(source: str) -> bytes:
    """Return `source` in UTF-8. Lone surrogates, which models sometimes write, become bytes that every compiler rejects."""
    return source.encode("utf-8", "surrogatepass")


def with_room(limits: Limits, files: Mapping[str, bytes]) -> Limits:
    """Return `limits` with the size of the program's own `files` added, so that they do not count as written by the program."""
    extra = sum(len(content) + 4096 for content in files.values()) / (1 << 20)
    return _raised(limits, math.ceil(extra), 2 * len(files))


@lru_cache
def _raised(limits: Limits, files_mb: int, inodes: int) -> Limits:
    return replace(limits, files_mb=limits.files_mb + files_mb, inodes=limits.inodes + inodes)


def _filled(known: Language, template: tuple[str, ...], limits: Limits) -> list[str]:
    values = {
        "source": known.source,
        "binary": known.binary or "",
        "heap_mb": max(_LEAST_HEAP_MB, int(limits.memory_mb) - _HEAP_RESERVE_MB),
        "stack_kb": _STACK_KB if resource.getrlimit(resource.RLIMIT_STACK)[1] == _UNLIMITED else 984,
    }
    return [word.format(**values) for word in template]


_GCC = ("-O2", "-pipe", "-DONLINE_JUDGE", "-fmax-errors=20", "-o", "{binary}", "{source}")

# Of what `import torch` maps, 600 MiB, two thirds are files and most of the rest is never touched.
register_language(
    Language(name="python", source="main.py", run=(_PYTHON, "{source}"), limit_address_space=False, aliases=("py", "python3"))
)
register_language(
    Language(name="bash", source="main.sh", run=("bash", "{source}"), needs="apt-get install bash", aliases=("sh", "shell"))
)
# The gnu dialects are what compilers and judges default to: in strict C17, strdup is undeclared and returns an int.
register_language(
    Language(
        name="c",
        source="main.c",
        compile=("gcc", "-std=gnu17", *_GCC, "-lm"),
        binary="main",
        run=("{binary}",),
        needs="apt-get install gcc libc6-dev",
    )
)
register_language(
    Language(
        name="cpp",
        source="main.cpp",
        compile=("g++", "-std=gnu++20", *_GCC),
        binary="main",
        run=("{binary}",),
        needs="apt-get install g++",
        aliases=("c++", "cxx", "cc", "g++"),
    )
)
register_language(
    Language(
        name="javascript",
        source="main.js",
        run=("node", "--max-old-space-size={heap_mb}", "--stack-size={stack_kb}", "{source}"),
        limit_address_space=False,
        own_threads=11,
        env={"OPENSSL_CONF": "/dev/null"},  # which it must be able to read, or it does not start
        needs="apt-get install nodejs",
        aliases=("js", "node", "nodejs"),
    )
)
