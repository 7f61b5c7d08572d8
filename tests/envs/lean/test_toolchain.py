"""Which Lean is found, where a project's libraries are, and what verdicts are keyed by. The programs here answer two questions
about a version and can do nothing else: what is tested is how answers are read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean import toolchain as module
from verigym.envs.lean.toolchain import INSTALL, Toolchain, find_toolchain, fits, numbers

LINE = "Lean (version 4.28.0-rc1, x86_64-unknown-linux-gnu, commit 38f3c0c45b8d, Release)"


def program(path: Path, version: str = LINE, prefix: str = "", exit_code: int = 0) -> Path:
    """Write a program that answers about itself and refuses everything else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    told = f"--print-prefix) {f'echo {prefix!r}' if prefix else 'exit 1'};;"
    path.write_text(f"#!/bin/sh\ncase $1 in {told} --version) echo '{version}'; exit {exit_code};; *) exit 64;; esac\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LEAN4_BIN", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    module._resolved.cache_clear()


def test_without_a_lean_it_says_what_to_install() -> None:
    with pytest.raises(EnvironmentFailure, match="no Lean at .*elan-init.sh.*LEAN4_BIN.*verigym lean doctor") as caught:
        find_toolchain()
    assert caught.value.kind == "unavailable" and not caught.value.retryable
    assert len(INSTALL) == 3


def test_the_option_comes_first_then_the_variable_then_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {name: program(tmp_path / name / "bin/lean", LINE.replace("28", number)) for name, number in
            (("option", "20"), ("variable", "21"), ("path", "22"))}  # fmt: skip
    monkeypatch.setenv("PATH", f"{made['path'].parent}:/usr/bin:/bin")
    assert find_toolchain().version == "4.22.0-rc1"
    monkeypatch.setenv("LEAN4_BIN", str(made["variable"]))
    assert find_toolchain().version == "4.21.0-rc1"
    found = find_toolchain(str(made["option"]))
    assert (found.version, found.commit, found.title) == ("4.20.0-rc1", "38f3c0c45b8d", "Lean 4.20.0-rc1 (38f3c0c45b)")
    assert found.readable == (str(tmp_path / "option"),)


def test_a_shim_is_followed_to_the_toolchain(tmp_path: Path) -> None:
    real = program(tmp_path / "toolchains/v4/bin/lean")
    shim = program(tmp_path / "elan/bin/lean", prefix=str(tmp_path / "toolchains/v4"))
    found = find_toolchain(str(shim))
    assert found.lean == str(real) and found.readable == (str(tmp_path / "toolchains/v4"),)


@pytest.mark.parametrize("prefix", ["/", "relative", "/no/such/prefix"])
def test_a_prefix_without_a_lean_is_passed_over(tmp_path: Path, prefix: str) -> None:
    made = program(tmp_path / "some/bin/lean", prefix=prefix)
    assert find_toolchain(str(made)).readable == (str(tmp_path / "some"),)


def test_a_program_alone_is_readable_alone(tmp_path: Path) -> None:
    made = program(tmp_path / "lean")
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    assert find_toolchain(str(made), toolchain_paths=[str(runtime)]).readable == (str(made), str(runtime))


@pytest.mark.parametrize(
    ("version", "exit_code", "why"),
    [
        ("Lean (version 3.51.1, commit cce7990ea86a, Release)", 0, "is no Lean 4: it says .Lean .version 3"),
        ("Python 3.11.2", 0, "is no Lean 4"),
        ("", 0, "fails: exit code 0"),
        ("", 2, "fails: exit code 2"),
    ],
)
def test_what_is_no_lean_4_is_refused(tmp_path: Path, version: str, exit_code: int, why: str) -> None:
    with pytest.raises(EnvironmentFailure, match=why):
        find_toolchain(str(program(tmp_path / "lean", version, exit_code=exit_code)))


def test_what_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "lean"
    made.write_text("#!/bin/sh\nexec sleep 60\n")
    made.chmod(0o755)
    monkeypatch.setattr(module, "_ASK_S", 0.3)
    with pytest.raises(EnvironmentFailure, match="no answer within 0.3 s"):
        find_toolchain(str(made))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A Lake project as `lake build` leaves it: its own library, two packages from git and one beside it."""
    root = tmp_path / "proofs"
    for folder in (
        root / ".lake/build/lib/lean",
        root / ".lake/packages/mathlib/.lake/build/lib/lean",
        root / ".lake/packages/batteries/sub/.lake/build/lib",
        tmp_path / "beside/build/lib",
    ):
        folder.mkdir(parents=True)
    (root / ".lake/packages/cli").mkdir()
    (root / "lean-toolchain").write_text("leanprover/lean4:v4.28.0-rc1\n")
    packages = [
        {"name": "mathlib", "type": "git", "rev": "abc"},
        {"name": "batteries", "type": "git", "subDir": "sub", "rev": "def"},
        {"name": "beside", "type": "path", "dir": "../beside"},
        {"name": "cli", "type": "git"},
    ]
    (root / "lake-manifest.json").write_text(json.dumps({"name": "proofs", "packages": packages}))
    return root


def test_the_libraries_of_a_project_are_found_without_running_anything(tmp_path: Path, project: Path) -> None:
    found = find_toolchain(str(program(tmp_path / "lean/bin/lean")), str(project))
    assert [Path(path).relative_to(tmp_path).as_posix() for path in found.lean_path] == [
        "proofs/.lake/build/lib/lean",
        "proofs/.lake/packages/mathlib/.lake/build/lib/lean",
        "proofs/.lake/packages/batteries/sub/.lake/build/lib",
        "beside/build/lib",
    ]
    assert set(found.lean_path) < set(found.readable)


def test_a_project_that_is_not_built_says_so(tmp_path: Path, project: Path) -> None:
    lean = str(program(tmp_path / "lean/bin/lean"))
    (project / "lake-manifest.json").write_text('{"packages": [{"name": "cli"}]}')
    with pytest.raises(EnvironmentFailure, match="no package of .* is built; run `lake exe cache get"):
        find_toolchain(lean, str(project))
    (project / "lake-manifest.json").write_text("{")
    module._resolved.cache_clear()
    with pytest.raises(EnvironmentFailure, match="lake-manifest.json cannot be read .*run `lake update`"):
        find_toolchain(lean, str(project))
    with pytest.raises(EnvironmentFailure, match="no project folder .*lake .leanprover-community"):
        find_toolchain(lean, str(tmp_path / "absent"))
    with pytest.raises(EnvironmentFailure, match="there is no /no/such, which lean_path or toolchain_paths"):
        find_toolchain(lean, lean_path=["/no/such"])


def changes(key: Callable[[], str]) -> Callable[[], bool]:
    last = [key()]

    def changed() -> bool:
        module._resolved.cache_clear()
        last.append(key())
        return last[-1] != last[-2]

    return changed


def test_the_key_changes_with_what_verdicts_depend_on(tmp_path: Path, project: Path) -> None:
    lean = tmp_path / "lean/bin/lean"
    program(lean)
    changed = changes(lambda: find_toolchain(str(lean), str(project)).key)
    assert not changed()
    (project / "README.md").write_text("hello")
    assert not changed()
    manifest = json.loads((project / "lake-manifest.json").read_text())
    manifest["packages"][0]["rev"] = "abd"
    (project / "lake-manifest.json").write_text(json.dumps(manifest))
    assert changed()
    (project / ".lake/build/lib/lean/Mine.olean").write_bytes(b"compiled")
    assert changed()
    program(lean, LINE.replace("38f3", "38f4"))
    assert changed()
    os.utime(lean, ns=(1, 1))
    assert changed()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4.28.0", (4, 28, 0, 10**6)),
        ("v4.28.0", (4, 28, 0, 10**6)),
        ("leanprover/lean4:v4.28.0-rc1", (4, 28, 0, 1)),
        ("4.28.0-pre", (4, 28, 0, 0)),
        ("leanprover/lean4:nightly-2026-01-01", None),
        ("", None),
    ],
)
def test_versions_are_read_as_numbers(text: str, expected: tuple[int, ...] | None) -> None:
    assert numbers(text) == expected


def test_releases_are_ordered() -> None:
    ordered = [numbers(text) for text in ("4.9.0", "4.28.0-pre", "4.28.0-rc1", "4.28.0-rc2", "4.28.0", "4.28.1", "4.34.0")]
    assert ordered == sorted(ordered, key=lambda item: item or ())


def test_a_task_may_name_its_toolchain() -> None:
    toolchain = Toolchain("/lean", "4.28.0", "")
    assert fits(None, toolchain) and fits("leanprover/lean4:v4.28.0", toolchain) and fits("4.28.0", toolchain)
    assert not fits("leanprover/lean4:v4.27.0", toolchain) and not fits("4.28.0-rc1", toolchain)
    assert not fits("leanprover/lean4:nightly-2026-01-01", toolchain)
