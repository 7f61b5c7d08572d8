"""Stage 1's process layer against programs that misbehave. They are shell scripts and do not pretend to be Lean."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from needs import lack
from processes import eventually

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean.compile import LeanBox
from verigym.envs.lean.task import LeanLimits
from verigym.envs.lean.toolchain import Toolchain
from verigym.sandbox import RunStatus

SMALL = LeanLimits(wall_s=120, cpu_s=10, memory_mb=256, processes=16, output_kb=64, file_mb=1)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> LeanBox:
    """Runs the "source" as a shell script: its last argument."""
    folder = tmp_path_factory.mktemp("shell")
    folder.chmod(0o755)
    runner = folder / "runner"
    runner.write_text('#!/bin/sh\nfor last; do :; done\nexec /bin/sh "$last"\n')
    runner.chmod(runner.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    library = folder / "library"
    library.mkdir()
    library.joinpath("there").write_text("read me")
    made = LeanBox(Toolchain(str(runner), "4.0.0", "", (str(library),), (str(folder),), "key"), workers=2)
    try:
        made.check()
    except EnvironmentFailure as failure:
        lack("bubblewrap", failure)
    return made


def ended(box: LeanBox, script: str, limits: LeanLimits = SMALL, **more: Any) -> str:
    return box.compile_file(script, "Solution", limits.model_copy(update=more)).ended


def test_a_file_that_it_leaves_comes_back(box: LeanBox) -> None:
    made = box.compile_file("printf content > Solution.olean; echo Solution.lean:1:2: warning: odd", "Solution", SMALL)
    assert (made.ended, made.files) == ("compiled", {"Solution.olean": b"content"})
    assert [(message.severity, message.text) for message in made.messages] == [("warning", "odd")]


def test_all_parts_of_a_module_come_back(box: LeanBox) -> None:
    names = ["Solution.olean", "Solution.olean.private", "Solution.olean.server"]
    made = box.compile_file(
        "for part in '' .server .private; do echo x > Solution.olean$part; done; echo y > other", "Solution", SMALL
    )
    assert made.ended == "compiled" and sorted(made.files) == names
    assert ended(box, "echo x > Solution.olean.private") == "missing"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("exit 0", "missing", id="nothing left behind"),
        pytest.param("echo x > Solution.olean; exit 1", "error", id="a file and an error"),
        pytest.param("exit 7", "error", id="another exit code"),
        pytest.param("ln -s /etc/passwd Solution.olean", "missing", id="a link in place of the file"),
        pytest.param("mkdir Solution.olean", "missing", id="a folder in place of the file"),
        pytest.param("mkfifo Solution.olean", "missing", id="a pipe in place of the file"),
        pytest.param("head -c 900000 /dev/zero > other; ln other Solution.olean", "missing", id="a second name of a file"),
        pytest.param("kill -SEGV $$", "crash", id="a crash"),
        pytest.param("kill -KILL $$", "crash", id="killed by itself"),
        pytest.param("exit 139", "crash", id="a crash that a wrapper reports"),
        pytest.param("head -c 3000000 /dev/zero > Solution.olean", "error", id="a file too large, told by the tool"),
        pytest.param("exec head -c 3000000 /dev/zero > Solution.olean", "file", id="a file too large"),
        pytest.param("yes", "output", id="a flood"),
        pytest.param("yes >&2", "output", id="a flood on standard error"),
        pytest.param("echo std::bad_alloc >&2; exit 1", "memory", id="out of memory, as C++ says it"),
    ],
)
def test_how_it_ends_decides(box: LeanBox, script: str, expected: str) -> None:
    found = ended(box, script)
    # Where a file is limited by a signal, a shell may see a child die of it and pass the code on.
    assert found == expected or {found, expected} == {"error", "file"}


@pytest.mark.parametrize(
    "script", ["sleep 600", "exec >&- 2>&-; sleep 600", "printf half; sleep 600", "trap '' TERM INT; sleep 600"]
)
def test_what_sleeps_is_ended_at_the_wall(box: LeanBox, script: str) -> None:
    assert ended(box, script, wall_s=1.0) == "time"


def test_what_spins_is_ended_by_its_cpu_time(box: LeanBox) -> None:
    assert ended(box, "while :; do :; done", cpu_s=1.0) == "time"


def test_memory_is_limited(box: LeanBox) -> None:
    source = "exec python3 -c 'x = bytearray(400 << 20)'"
    assert ended(box, source) in ("memory", "error")  # MemoryError says so itself
    assert "MemoryError" in str(box.compile_file(source, "Solution", SMALL)) or ended(box, source) == "memory"


def test_a_fork_bomb_and_grandchildren_leave_nothing_behind(box: LeanBox) -> None:
    tag = "verigym-lean-survivor"
    script = f'exec -a {tag} sleep 900 &\n(setsid sh -c "exec -a {tag} sleep 900" &)\nf() {{ f | f & }}; f; sleep 0.5; exit 0'
    ended(box, f"exec bash -c '{script.replace(chr(39), chr(39) * 2)}'", wall_s=5.0)

    def alive() -> list[Path]:
        return [path for path in Path("/proc").glob("[0-9]*/cmdline") if tag.encode() in _read(path)]

    assert eventually(lambda: not alive(), 300)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().split(b"\0")[0]
    except OSError:
        return b""


def test_libraries_can_be_read_and_not_written(box: LeanBox) -> None:
    script = 'cat "$LEAN_PATH"/there; echo new > "$LEAN_PATH"/there || echo kept; env | sort'
    result = box.run(("x.sh",), {"x.sh": script.encode()}, SMALL, ())
    assert result.status is RunStatus.OK
    text = result.stdout.decode()
    assert text.startswith("read mekept\n")
    variables = {line.partition("=")[0] for line in text.splitlines()[1:]}
    assert "LEAN_PATH" in variables and not variables & {"HF_TOKEN", "USER", "LEAN4_BIN", "SSH_AUTH_SOCK"}


def test_there_is_no_network_and_no_file_of_the_host(box: LeanBox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("answers")
    script = f'cat "{secret}" && exit 3; ls /root /home && exit 4; (echo > /dev/tcp/127.0.0.1/22) && exit 5; cat /proc/net/dev'
    result = box.run(("x.sh",), {"x.sh": f"exec bash -c '{script}'".encode()}, SMALL, ())
    assert result.exit_code == 0
    assert b"eth" not in result.stdout


def test_runs_do_not_see_each_other(box: LeanBox) -> None:
    assert ended(box, "echo mine > ../left; echo mine > left; echo mine > /tmp/left; touch Solution.olean; exit 0") == "missing"
    result = box.run(("x.sh",), {"x.sh": b"ls -a . .. /tmp"}, SMALL, ())
    assert b"left" not in result.stdout


def test_many_at_a_time(box: LeanBox) -> None:
    found: dict[int, bytes] = {}

    def work(number: int) -> None:
        found[number] = box.compile_file(f"printf {number} > Solution.olean", "Solution", SMALL).files["Solution.olean"]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: str(number).encode() for number in range(8)}


def test_a_binary_that_cannot_be_started_is_our_failure(tmp_path: Path) -> None:
    broken = tmp_path / "lean"
    broken.write_text("no program\n")
    broken.chmod(0o644)
    tmp_path.chmod(0o755)
    box = LeanBox(Toolchain(str(broken), "4.0.0", "", (), (str(tmp_path),), "key"), workers=1)
    with pytest.raises(EnvironmentFailure, match="Permission denied|bubblewrap"):
        box.compile_file("", "Solution", SMALL)


def test_a_missing_library_is_our_failure(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="there is no"):
        LeanBox(Toolchain("/bin/sh", "4.0.0", "", (), (str(tmp_path / "absent"),), "key"), workers=1)


def test_a_slow_build_of_lean_gets_more_time_and_no_more_memory(box: LeanBox) -> None:
    limits = LeanBox(box.toolchain, workers=1, time_factor=2.5).job((), {}, SMALL).limits
    assert (limits.wall_s, limits.cpu_s, limits.memory_mb, limits.files_mb) == (300.0, 25.0, 256, 1)
