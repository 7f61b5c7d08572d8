"""`verigym init`: writes a new environment to start from, as an installable package, or as one file with a training run.

The templates are in `templates/`. Files in `all/` are part of every package; each other folder is for the kind of package that
it is named after. In a template, a word such as `$package` stands for a value that is filled in.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import keyword
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Literal

from verigym.envs import available
from verigym.envs.contract.errors import UsageError

Kind = Literal["single", "tools", "game", "file"]

MAX_CHARS = 32
"""Maximum length of a name in characters; with longer names, lines of the filled-in templates would become too long."""

_IN_TEMPLATES = ("game", "tool", "tests")
"""Names that would give a class or a module that the templates have already."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_SHARED = MappingProxyType(
    {
        "pyproject.toml": "all/pyproject.toml",
        "README.md": "all/README.md",
        ".gitignore": "all/gitignore",
        ".github/workflows/ci.yml": "all/ci.yml",
        "src/$package/__init__.py": "all/init.py",
        "src/$package/py.typed": "all/py.typed",
    }
)
_USE: Mapping[Kind, str] = MappingProxyType(
    {
        "single": "Each task is a question; the model answers in one turn, and `judge` compares the answer with the reference.",
        "tools": "Each task is a question; the model may call the tools of `tools.py` before it answers, and the answer is\n"
        "judged. `verigym play $package` plays an episode by hand.",
        "game": "Each task is a game of several turns with a hidden state; `judge` plays a saved episode again and believes\n"
        "nothing else in it. `verigym play $package` plays one by hand.",
    }
)
_OWN: Mapping[Kind, Mapping[str, str]] = MappingProxyType(
    {
        "single": {"environment.py": "tasks, options, reference and `judge`"},
        "tools": {"environment.py": "tasks, options, reference and `judge`", "tools.py": "the tools, and what they know"},
        "game": {"environment.py": "rules, tasks, options, reference and the verdict"},
    }
)
"""The kinds: files of the package by name, and what is in them."""

PACKAGE_KINDS: tuple[Kind, ...] = tuple(_OWN)
KINDS: tuple[Kind, ...] = (*PACKAGE_KINDS, "file")
_FILES: Mapping[str, str] = MappingProxyType(
    {
        "$package.py": "file/environment.py",
        "train.yaml": "file/train.yaml",
        "with_trl.py": "file/with_trl.py",
    }
)
"""What the kind `file` consists of."""


@dataclass(frozen=True)
class Names:
    """The names of a package in different contexts."""

    distribution: str
    """For pip, such as `word-ladder`."""
    package: str
    """Name of the Python module, for `import`, and of the environment; for example `word_ladder`."""
    class_name: str
    """Such as `WordLadderEnvironment`."""


def names_of(name: str) -> Names:
    """Return the names for a package called `name`: those of its module, its environment and so on.

    Args:
        name: letters, digits, `-`, `_` and `.`, as PEP 508 allows them.

    Raises:
        UsageError: `name` is invalid or too long, cannot become the name of a Python module, or is that of an existing
            environment or module.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a package: expected letters, digits, -, _ and ., such as word-ladder")
    if len(name) > MAX_CHARS:
        raise UsageError(f"{name!r} has {len(name)} characters; expected at most {MAX_CHARS}")
    distribution = re.sub(r"[-_.]+", "-", name).lower()
    package = distribution.replace("-", "_")
    if not package.isidentifier() or keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise UsageError(
            f"{name!r} gives the module {package!r}, which Python cannot import; begin with a letter, avoid keywords"
        )
    if place := available().get(package):
        raise UsageError(f"an environment is called {package!r} already: {place}; choose another name")
    if package in sys.stdlib_module_names or package in _IN_TEMPLATES or _module_is_there(package):
        raise UsageError(f"a module is called {package!r} already, and would be hidden or hide this one; choose another name")
    return Names(distribution, package, "".join(map(str.capitalize, package.split("_"))) + "Environment")


def _module_is_there(package: str) -> bool:
    # The present folder too, from which `file:Class` names are read, though a command's path does not hold it.
    here = Path.cwd() / f"{package}.py"
    return here.is_file() or importlib.util.find_spec(package) is not None


def make_package(name: str, kind: Kind, folder: Path | None = None) -> tuple[Names, Path, list[Path]]:
    """Write a small working environment as a start for the user's own: a package with tests and CI, or a single file.

    Args:
        name: the name of the package or file, see `names_of`.
        kind: `single` for one turn, `tools` for a model that calls tools, `game` for episodes with a state; `file` for one file
            with one turn, a pipeline that trains on it, and a script for TRL.
        folder: where to write; by default a folder with the environment's name in the current folder. For a package,
            the folder must be new or empty; for a single file, it must not hold files of the same names.

    Returns:
        The names, the folder, and the files that were written, in order.

    Raises:
        UsageError: the name cannot be used, or the folder cannot be used or written.
    """
    names = names_of(name)
    folder = Path(names.distribution) if folder is None else folder
    texts = _texts(names, kind)
    try:
        if kind == "file":
            if there := [path for path in texts if (folder / path).exists()]:
                raise UsageError(f"{folder / there[0]} exists already; name another folder")
        elif folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file; name a folder that does not exist, or an empty one")
        elif folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty; name a folder that does not exist, or an empty one")
        for path, text in texts.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or folder}: {error.strerror}") from None
    return names, folder, [folder / path for path in texts]


def _texts(names: Names, kind: Kind) -> dict[str, str]:
    """Return the text of each file by its path."""
    version = importlib.metadata.version("verigym")
    values = {
        "distribution": names.distribution,
        "package": names.package,
        "class_name": names.class_name,
        "title": names.package.replace("_", " ").capitalize(),
        "verigym": version,
    }
    if kind == "file":
        return {Template(path).substitute(values): _read(source, values) for path, source in _FILES.items()}
    described = {f"src/{names.package}/{file}": what for file, what in _OWN[kind].items()}
    described["tests/test_environment.py"] = "verdicts as data, and the contract"
    described["pyproject.toml"] = (
        'the entry point that makes `verigym.load("$package")` work; settings of ruff, mypy and pytest'
    )
    described[".github/workflows/ci.yml"] = (
        "what `pytest`, ruff, mypy and `verigym check` do on GitHub; says where verigym comes from"
    )
    values["files"] = Template("\n".join(f"| `{path}` | {what} |" for path, what in described.items())).substitute(values)
    values["use"] = Template(_USE[kind]).substitute(values)
    sources = {
        **_SHARED,
        **{f"src/$package/{file}": f"{kind}/{file}" for file in _OWN[kind]},
        "tests/test_environment.py": f"{kind}/test_environment.py",
    }
    return {Template(path).substitute(values): _read(source, values) for path, source in sources.items()}


def _read(source: str, values: Mapping[str, str]) -> str:
    place = files("verigym.scaffold").joinpath("templates", *f"{source}.template".split(os.sep))
    return Template(place.read_text(encoding="utf-8")).substitute(values)
