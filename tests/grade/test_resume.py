"""A run that is stopped at any byte and started again ends with the file of an uninterrupted one."""

import hashlib
import json
import re
import shlex
import signal
import subprocess
import sys

import pytest

from verigym.cli import main
from verigym.grade.out_file import sidecar

SECONDS = re.compile(rb'"seconds": [-+.0-9e]+')


def without_seconds(path):
    return SECONDS.sub(b'"seconds": 0', path.read_bytes())


def settings_of(out):
    meta = json.loads(sidecar(out, "meta.json").read_text())
    del meta["runs"]
    return meta


def write_rows(path, count, samples=2):
    with path.open("w", encoding="utf-8") as stream:
        for i in range(count):
            texts = [f"so \\boxed{{{i + j}}} caf\u00e9" for j in range(samples)]
            row = {"prompt": f"{i}+0?", "answer": str(i), "completion": texts, "level": i % 3}
            stream.write((json.dumps(row, ensure_ascii=False) if i % 7 != 5 else "broken") + "\n")
    return path


def command(source, out, *more):
    return ["grade", str(source), "--env", "math", "--out", str(out), "--keep", "level", *more]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    source, out = write_rows(folder / "in.jsonl", 12), folder / "out.jsonl"
    assert main(command(source, out, "--workers", "0")) == 1
    return source, out


def copy_run(finished, folder, size):
    """Put a run in a folder that was killed when the output had that many bytes."""
    source, done = finished
    out = folder / f"out{size}.jsonl"
    out.write_bytes(done.read_bytes()[:size])
    sidecar(out, "meta.json").write_bytes(sidecar(done, "meta.json").read_bytes())
    return source, out


def test_stopped_at_any_byte(finished, tmp_path, capsys):
    _, done = finished
    total = done.stat().st_size
    newline = done.read_bytes().index(b"\n")
    for size in [0, 1, newline - 1, newline, newline + 1, newline + 2, *range(500, total, 997), total - 1, total]:
        source, out = copy_run(finished, tmp_path, size)
        assert main(command(source, out, "--workers", "0")) == 1
        assert without_seconds(out) == without_seconds(done), f"stopped at byte {size}"
        assert sidecar(out, "bad.jsonl").read_bytes() == sidecar(done, "bad.jsonl").read_bytes()
        assert settings_of(out) == settings_of(done)
        ours, theirs = (json.loads(sidecar(path, "summary.json").read_text()) for path in (out, done))
        for summary in (ours, theirs):
            del summary["out"], summary["seconds"], summary["grading_seconds"], summary["command"]
        assert ours == theirs
    capsys.readouterr()


def test_kept_lines_are_not_graded_again(finished, tmp_path, capsys):
    _, done = finished
    source, out = copy_run(finished, tmp_path, 3000)
    kept = out.read_bytes().rpartition(b"\n")[0]
    assert main(command(source, out, "--workers", "0")) == 1
    assert out.read_bytes().startswith(kept), "lines that were there keep even their seconds"
    lines = kept.count(b"\n") + 1
    assert lines > 1 and f"({lines} graded before)" in capsys.readouterr().out


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("longer")
    source, whole = write_rows(folder / "in.jsonl", 1500), folder / "whole.jsonl"
    assert main(command(source, whole)) == 1
    return source, whole


# The kernel kills a process as it writes beyond its limit on the size of files.
KILLED = """
import resource, signal, sys
from verigym.cli import main
if __name__ == "__main__":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
    main(sys.argv[2:])
"""


@pytest.mark.parametrize("share", [pytest.param(0.2, marks=pytest.mark.slow), 0.7])
@pytest.mark.slow
def test_killed_for_real(longer, tmp_path, share, capsys):
    source, whole = longer
    out = tmp_path / "out.jsonl"
    size = int(share * whole.stat().st_size)
    done = subprocess.run([sys.executable, "-c", KILLED, str(size), *command(source, out)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGXFSZ, done.stderr
    assert out.stat().st_size == size
    assert main(command(source, out)) == 1
    assert without_seconds(out) == without_seconds(whole)
    capsys.readouterr()


def test_other_settings_are_refused(finished, tmp_path, capsys):
    source, out = copy_run(finished, tmp_path, 2000)
    for more, message in [
        (["--option", "extract=last"], 'settings: options.extract was ["boxed"] and is now ["last"]; pass'),
        (["--timeout-s", "5"], "settings: timeout_s was 30.0 and is now 5.0; pass"),
        (["--prompt-column", "answer"], 'settings: columns.prompt was "prompt" and is now "answer"; pass'),
        (["--group-by", "level"], 'settings: columns.group_by was null and is now "level"; pass'),
        (
            ["--option", "extract=label", "--option", "labels=true", "--timeout-s", "5"],
            'settings: options.extract was ["boxed"] and is now ["label"]; options.labels was false and is now true; '
            "timeout_s was 30.0 and is now 5.0; pass",
        ),
    ]:
        assert main([*command(source, out), "--workers", "0", *more]) == 2
        error = capsys.readouterr().err
        assert message in error and "pass --overwrite" in error and error.count("\n") == 1
    assert out.stat().st_size == 2000, "a refused run changes nothing"


def test_other_input_is_refused(finished, tmp_path, capsys):
    source, out = copy_run(finished, tmp_path, 2000)
    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(source.read_bytes().replace(b"3+0?", b"4+0?"))
    assert main(command(changed, out, "--workers", "0")) == 2
    assert re.search(
        rf"was made from {re.escape(str(source))} with other settings: "
        r"input\.sha256 was [0-9a-f]{12}\.\.\. and is now [0-9a-f]{12}\.\.\.; pass",
        capsys.readouterr().err,
    )


def test_lines_of_another_input_are_noticed_even_from_a_pipe(tmp_path, monkeypatch, capsys):
    import io

    out = tmp_path / "out.jsonl"

    def run(answer):
        row = json.dumps({"prompt": "2+2?", "answer": answer, "completion": r"\boxed{4}"})
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(row.encode() + b"\n"))))
        return main(["grade", "-", "--env", "math", "--out", str(out), "--workers", "0"])

    assert run("4") == 0
    assert run("4") == 0
    assert run("5") == 2
    assert "line 1: the input has something else at line 1, sample 1: it has changed" in capsys.readouterr().err


def test_input_that_became_shorter_is_noticed(finished, tmp_path, capsys):
    source, out = copy_run(finished, tmp_path, finished[1].stat().st_size)
    meta = sidecar(out, "meta.json")
    shorter = tmp_path / "shorter.jsonl"
    shorter.write_bytes(b"".join(source.read_bytes().splitlines(keepends=True)[:3]))
    settings = json.loads(meta.read_text())
    from verigym.grade.manifest import fingerprint

    meta.write_text(json.dumps({**settings, "input": fingerprint(str(shorter))}))
    assert main(command(shorter, out, "--workers", "0")) == 2
    assert "holds more than the input gives" in capsys.readouterr().err


def test_the_record_says_what_made_which_lines(finished, tmp_path, capsys):
    source, out = copy_run(finished, tmp_path, 3000)
    meta = sidecar(out, "meta.json")
    record = json.loads(meta.read_text())
    assert record["options"]["extract"] == ["boxed"] and record["environment"] == "math"
    assert record["input"] == {"size": source.stat().st_size, "sha256": hashlib.sha256(source.read_bytes()).hexdigest()}
    [first] = record["runs"]
    assert first["first_line"] == 1 and first["command"].startswith(f"verigym grade {shlex.quote(str(source))} --env math")
    assert {"python", "verigym", "sympy"} <= first["versions"].keys()
    first["versions"]["sympy"] = "1.0"
    meta.write_text(json.dumps(record))
    kept = out.read_bytes().count(b"\n")
    assert main(command(source, out, "--workers", "0")) == 1
    assert re.search(rf"warning: {kept} lines were made with other versions: sympy was \"1.0\" and is", capsys.readouterr().err)
    runs = json.loads(meta.read_text())["runs"]
    assert [entry["first_line"] for entry in runs] == [1, kept + 1] and runs[0] == first
    summary = json.loads(sidecar(out, "summary.json").read_text())
    assert summary["versions"] == runs[1]["versions"] and summary["options"] == record["options"]
    assert main(command(source, out, "--workers", "0", "--k", "1")) == 1
    assert json.loads(meta.read_text())["runs"] == runs, "a run that adds no line made nothing"


def test_the_gold_stands_beside_each_sample(finished):
    lines = [json.loads(line) for line in finished[1].read_text(encoding="utf-8").splitlines()]
    assert [line["gold"] for line in lines[:3]] == [{"answer": "0"}, {"answer": "0"}, {"answer": "1"}]


def test_a_file_of_an_earlier_format_is_refused(finished, tmp_path, capsys):
    source, out = copy_run(finished, tmp_path, 2000)
    sidecar(out, "meta.json").write_text('{"format_version": 1, "grader": "math@7+0", "timeout_s": 3}')
    assert main(command(source, out, "--workers", "0")) == 2
    assert "with other settings: format_version was 1 and is now 3; pass" in capsys.readouterr().err


def test_a_file_of_somebody_else_is_left_alone(finished, tmp_path, capsys):
    out = tmp_path / "notes.jsonl"
    out.write_bytes(b"my notes, no line end")
    assert main(command(finished[0], out, "--workers", "0")) == 2
    assert "has no readable notes.jsonl.meta.json" in capsys.readouterr().err
    assert out.read_bytes() == b"my notes, no line end"


def test_overwrite_starts_again(finished, tmp_path, capsys):
    source, out = copy_run(finished, tmp_path, 2000)
    assert main([*command(source, out), "--workers", "0", "--option", "extract=last", "--overwrite"]) == 1
    assert b"last:" in out.read_bytes()
    assert "graded before" not in capsys.readouterr().out


def test_two_runs_on_one_output(finished, tmp_path, capsys):
    import fcntl

    source, out = copy_run(finished, tmp_path, 2000)
    with out.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert main(command(source, out, "--workers", "0")) == 2
    assert "is being written by another verigym grade" in capsys.readouterr().err
