"""Reference of the `lean` environment: the declaration, its header, the allowed axioms and the limits."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Reference
from verigym.envs.lean.lexer import tokens
from verigym.envs.lean.statement import Split, split_statement

Mode = Literal["slot", "file"]

STANDARD_AXIOMS = ("propext", "Quot.sound", "Classical.choice")


def _lean_text(value: object) -> object:
    """Refuse text that no Lean file can hold; line ends become those of Lean."""
    if not isinstance(value, str):
        return value
    if "\0" in value:
        raise ValueError("holds a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("holds a lone surrogate, which no file can store") from None
    return value.removeprefix("\ufeff").replace("\r\n", "\n")


Text = Annotated[str, BeforeValidator(_lean_text)]


class LeanLimits(BaseModel):
    """Limits on compiling one submission. Beyond a limit the verdict is LIMIT, which gets the floor."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    wall_s: float = Field(60.0, gt=0, allow_inf_nan=False)
    """Seconds of wall time. This stops compiled loops too, which Lean's own limit (heartbeats) does not."""
    cpu_s: float = Field(60.0, gt=0, allow_inf_nan=False)
    """Seconds of CPU time of all its threads together."""
    memory_mb: int = Field(4096, ge=64)
    """MiB of resident memory. Address space is not limited, because Mathlib maps gigabytes of which it reads little."""
    processes: int = Field(64, ge=1)
    """Processes and threads at one time."""
    output_kb: int = Field(256, ge=1)
    """KiB on standard output, and as many on standard error."""
    file_mb: int = Field(64, ge=1)
    """MiB of one file that it writes; the compiled module is one."""


class LeanReference(Reference):
    """A declaration to prove or to fill in."""

    name: str = Field(min_length=1)
    """Full name of the constant that the compiled file must define, with its namespaces: `target` or `Foo.target`."""
    statement: Text
    """The declaration up to, not including, the `:=` of its body: `theorem target : 1 + 1 = 2`."""
    header: Text = ""
    """The text before the statement: imports, `open`, options, and definitions that the statement uses."""
    mode: Mode = "slot"
    """slot: the model writes what follows `:=`. file: the model writes a whole file that declares `name`."""
    allowed_axioms: tuple[str, ...] = STANDARD_AXIOMS
    """The axioms that the proof may depend on."""
    toolchain: str | None = None
    """The Lean version that the statement is written for, as in a `lean-toolchain` file; None for any version."""
    limits: LeanLimits = LeanLimits()
    """What compiling a submission may use."""
    solution: Text | None = None
    """A submission known to be right, in the form that `mode` asks for. It becomes the gold."""

    @model_validator(mode="after")
    def _declares_its_name(self) -> Self:
        parts = self._split()
        if parts.tail.strip():
            raise ValueError(f"statement holds a body, {parts.tail.strip()[:40]!r}; leave out the := and what follows it")
        if parts.before.strip():
            raise ValueError(
                f"statement begins with {parts.before.strip()[:40]!r}; what stands before the declaration is header"
            )
        if parts.name != self.name:
            raise ValueError(f"statement declares {parts.name!r}, and name is {self.name!r}")
        if self.solution is not None and not self.solution.strip():
            raise ValueError("solution is empty; leave it out where no proof is known")
        return self

    def _split(self) -> Split:
        for place, text in (("header", self.header), ("statement", self.statement)):
            if any(token.kind == "unclosed" for token in tokens(text)):
                raise ValueError(f"{place} opens a comment, a string or a quoted name that never closes")
        try:
            own = split_statement(self.statement)
            whole = split_statement(_joined(self.header, self.statement))
        except UsageError as error:
            raise ValueError(str(error)) from None
        return own._replace(name=whole.name)


def challenge_file(reference: LeanReference) -> str:
    """Return the grader's own file: the declaration of `reference` with `sorry` as its body."""
    body = "by sorry" if split_statement(reference.statement).keyword in ("theorem", "lemma") else "sorry"
    return f"{_declaration(reference)} {body}\n"


def solution_file(reference: LeanReference, submission: str) -> str:
    """Return the file to compile.

    In mode `slot`, header and statement are ours, and the submission follows `:=` on a new line. In mode `file`, the submission
    is used unchanged with its own imports, because a header before them would change the meaning of the file.
    """
    if reference.mode == "file":
        return submission
    return f"{_declaration(reference)}\n{submission}\n"


def _declaration(reference: LeanReference) -> str:
    """Return header and statement up to and with `:=`."""
    text = _joined(reference.header, reference.statement.rstrip())
    last = list(tokens(reference.statement))[-1]
    return text + ("\n:=" if last.kind == "comment" and last.text.startswith("--") else " :=")


def _joined(header: str, statement: str) -> str:
    return f"{header.rstrip()}\n\n{statement}" if header.strip() else statement
