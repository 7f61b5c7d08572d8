"""Makes and compares the records that are kept beside score files: the settings and versions that the scores depend on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from verigym.envs import Environment
from verigym.envs.contract.differences import differing
from verigym.envs.extras import installed
from verigym.envs.file_hash import file_sha256

FORMAT_VERSION = 3
PACKAGES = (
    "verigym", "pydantic", "sympy", "mpmath", "math-verify", "latex2sympy2-extended", "antlr4-python3-runtime", "numpy",
    "py3langid", "emoji", "syllapy", "jsonschema", "google-re2", "chess", "reasoning-gym", "torch", "transformers",
)  # fmt: skip
"""Packages that a verdict may depend on."""


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that verdicts may depend on."""
    return installed(PACKAGES)


def options_of(environment: Environment, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of `environment`, including those at their defaults.

    For an environment of another package whose options are not typed, return the options `given`.
    """
    options = getattr(environment, "options", None)
    return options.model_dump(mode="json") if isinstance(options, BaseModel) else dict(given)


def fingerprint(path: str | Path) -> dict[str, Any]:
    """Return the file's size in bytes and its sha256, which together identify its content."""
    return {"size": os.stat(path).st_size, "sha256": file_sha256(path)}


def differences(old: Any, new: Any) -> list[str]:
    """Return a line for each field in which the JSON values `old` and `new` differ, with the old and the new value."""
    if isinstance(old, dict) and isinstance(new, dict) and old.get("format_version") != new.get("format_version"):
        return [f"format_version was {old.get('format_version')!r} and is now {new.get('format_version')!r}"]
    found = list(differing(old, new))
    if any(place.startswith("options.") for place, _ in found):
        found = [(place, words) for place, words in found if place != "grader"]  # its hash only repeats them
    return [words for _, words in found]
