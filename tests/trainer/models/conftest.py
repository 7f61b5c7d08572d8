"""Chat templates of published models, as the package TRL ships them. They are fetched from the package index."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from needs import lack
from patience import HANG_S

TRL = "trl==1.16.0"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--retries", "1", "--timeout", "20"]


@pytest.fixture(scope="session")
def real_templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The text of each template by the name of its file."""
    folder = tmp_path_factory.mktemp("trl")
    command = [*PIP, "download", "--no-deps", "--dest", str(folder), TRL]
    try:
        subprocess.run(command, capture_output=True, timeout=HANG_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        lack("packages", error)
    (wheel,) = folder.glob("trl-*.whl")
    with zipfile.ZipFile(wheel) as file:
        return {Path(name).stem: file.read(name).decode() for name in file.namelist() if name.endswith(".jinja")}
