"""What docs/service.md shows, run as it stands."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from needs import lack
from service_process import Running

from verigym.datasets_cfg.yamlfile import read
from verigym.serve.catalog import load_served
from verigym.serve.settings import ServiceSettings

PAGE = Path(__file__).resolve().parents[2] / "docs/service.md"


def example(name: str) -> str:
    (found,) = re.findall(rf"<!-- example: {name} -->\n```\w*\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


def shell(code: str, folder: Path, **variables: str) -> str:
    if shutil.which("curl") is None:
        lack("curl", "the examples use it")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "no_proxy": "*", **variables}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_is_started_and_asked(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    said = shell(example("start").replace("8642", port), tmp_path)
    assert f"on http://127.0.0.1:{port}; no token is demanded" in said
    assert '{"reward":1.0,"status":"correct"' in said


def test_a_batch(service: Running, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in shell(example("batch"), tmp_path, URL=service.url).splitlines()]
    by_id = {line["id"]: line for line in lines}
    assert by_id["a"]["score"]["reward"] == 1.0
    assert by_id["b"]["problem"]["message"] in PAGE.read_text()


@pytest.mark.slow
def test_the_client(service: Running, tmp_path: Path) -> None:
    code = tmp_path / "example.py"
    code.write_text(example("client"))
    environment = {**os.environ, "URL": service.url}
    done = subprocess.run([sys.executable, code], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    first, second, third, last = done.stdout.splitlines()
    assert (first, second, third) == ("1.0 correct", "1.0 0.0", "False user")
    assert last in ("incorrect", "no_answer", "truncated", "partial")


def test_an_episode(service: Running, tmp_path: Path) -> None:
    one, two, end = map(json.loads, shell(example("episode"), tmp_path, URL=service.url).splitlines())
    assert one == two and one["turn"] == 0 and one["messages"]
    assert end["completion"]["finish_reason"] == "turns" and end["score"]["reward"] is not None


@pytest.mark.slow
def test_the_configuration() -> None:
    settings = read(example("config"), "serve.yaml", ServiceSettings, "`environments: [math]`")
    assert settings.limits.drain_s == 120 and settings.environments[2].concurrency == 2
    names = load_served([one for one in settings.environments if one.environment != "code"])
    assert list(names) == ["math", "arithmetic", "math_with_tools"]
