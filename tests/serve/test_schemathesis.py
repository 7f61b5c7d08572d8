"""schemathesis finds nothing: what the service does is what its OpenAPI document says, whatever it is sent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from needs import lack
from service_process import Running

TOKEN = "a-token-of-the-tests-0123"
# A reference that fits the schema may still say nothing to its environment (an empty gold, bounds without a number between).
SETTINGS = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429"]
"""


@pytest.fixture(scope="module")
def schemathesis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, in a virtual environment of its own: it brings a web framework and pins what others need."""
    folder = tmp_path_factory.mktemp("schemathesis")
    commands: list[list[str | Path]] = [
        [sys.executable, "-m", "venv", "--without-pip", folder],
        [
            sys.executable,
            "-m",
            "pip",
            "-q",
            "--retries",
            "1",
            "--python",
            folder / "bin/python",
            "install",
            "schemathesis==4.32.5",
        ],
    ]
    for command in commands:
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600)
        if done.returncode:
            lack("schemathesis", done.stderr.strip()[-300:])
    return folder / "bin/st"


@pytest.mark.slow
def test_the_service_keeps_to_its_description(schemathesis: Path, serve: Callable[..., Running], tmp_path: Path) -> None:
    served = ["--env", "math", "--env", "arithmetic", "--env", "number_guessing"]
    service = serve(*served, "--limit", "episodes=5000", VERIGYM_TOKEN=TOKEN)
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(SETTINGS)
    command = [schemathesis, "--config-file", settings, "run", f"{service.url}/openapi.json", "--checks", "all", "--no-color"]
    command += ["-H", f"Authorization: Bearer {TOKEN}", "--max-examples", "25", "--generation-deterministic"]
    command += ["--continue-on-failure", "--suppress-health-check", "all"]
    done = subprocess.run([*map(str, command)], cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "Tested: 11" in done.stdout, done.stdout[-3000:]
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert service.metric("verigym_items_pending", **right) == 0
    assert service.metric("verigym_held_bytes", **right) == 0
    assert service.stop() == 0
    assert "Traceback" not in service.errors.read_text(), service.errors.read_text()
