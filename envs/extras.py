"""Optional packages: the pip extra of verigym that installs each of them, and the error if one is missing."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import platform
from collections.abc import Iterable, Mapping
from types import ModuleType

from verigym.envs.contract.errors import UsageError

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "train": ("torch", "transformers", "tokenizers", "safetensors", "requests", "tensorboard", "matplotlib", "numpy", "jinja2"),
    "data": ("datasets", "pyarrow", "huggingface_hub"),
    "math-verify": ("math_verify", "latex2sympy2_extended", "antlr4"),
    "language": ("py3langid",),
    "constraints": ("emoji", "syllapy"),
    "format": ("jsonschema",),
    "match": ("re2",),
    "games": ("chess",),
    "reasoning-gym": ("reasoning_gym",),
    "retrieval": ("bm25s",),
    "mcp": ("mcp",),
    "lean": ("lean_interact", "lean_dojo"),
    "docker": ("docker",),
    "lora": ("peft",),
    "quant": ("bitsandbytes",),
    "liger": ("liger_kernel",),
    "vllm": ("vllm",),
    "inspect-ai": ("inspect_ai",),
    "lighteval": ("lighteval",),
    "verifiers": ("verifiers",),
    "openenv": ("openenv",),
    "nemo-gym": ("nemo_gym",),
    "boards": ("wandb", "trackio"),
    "scale": ("simpy",),
    "serve": ("fastapi", "starlette", "uvicorn", "h11", "prometheus_client"),
    "client": ("httpx",),
    "trl": ("trl",),
    "verl": ("verl",),
    "openrlhf": ("starlette", "uvicorn"),
    "skyrl": ("skyrl_gym",),
    "art": ("art",),
}
"""Mapping from each pip extra of verigym, such as `math-verify`, to the import names of those of its packages that verigym
imports, which it does only when needed.

`pyproject.toml` lists all packages of an extra. A package may belong to several extras."""

# Of several extras that hold a package the first is named.
_EXTRA_OF = {package: extra for extra, packages in reversed(list(EXTRAS.items())) for package in packages}


def install(package: str) -> str:
    """Return the command that installs a package of `EXTRAS`."""
    return f"pip install 'verigym[{_EXTRA_OF[package]}]'"


def need(module: str, what: str) -> ModuleType:
    """Import `module`, which belongs to an optional package, and return it.

    Args:
        module: import name. The part before the first dot is a package in one of the lists of `EXTRAS`.
        what: the feature that needs it, for the error message.

    Raises:
        UsageError: the module is not installed or cannot be imported; the message says which extra to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        line = " ".join(str(error).split())[:200]
        raise UsageError(f"{what} needs the package {package} ({line}); {install(package)}") from None


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of all installed packages among `packages`, keyed by their pip names."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def missing(error: ImportError) -> UsageError | None:
    """Return a UsageError that says what to install, if `error`, a failed import, means a missing optional package.

    Return None if `error` has another cause.
    """
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRA_OF:
        return None
    if importlib.util.find_spec(package) is None:
        return UsageError(f"this command needs the package {package}, which is not installed; {install(package)}")
    line = " ".join(str(error).split())[:200]
    command = install(package).replace("install", "install --upgrade", 1)
    return UsageError(f"the package {package} is installed, but not as this command needs it ({line}); {command}")
