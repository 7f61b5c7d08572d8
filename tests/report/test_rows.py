"""Logs that are being written while they are read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from verigym.report.rows import Lines, LogTail, first_row, read_json


def line(step: int) -> str:
    return json.dumps({"step": step}) + "\n"


def steps(tail: LogTail) -> list[int]:
    return [row["step"] for row in tail.rows]


def test_a_half_written_last_line_waits_for_its_rest(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = LogTail(path)
    assert not tail.update() and tail.modified is None
    path.write_text(line(1) + line(2)[:6])
    assert tail.update() and steps(tail) == [1]
    assert not tail.update()
    path.write_text(line(1) + line(2) + line(3))
    assert tail.update() and steps(tail) == [1, 2, 3]
    assert tail.restarts == 0 and tail.modified is not None


def test_a_log_that_is_replaced_by_a_shorter_one_is_read_anew(tmp_path: Path) -> None:
    path, other = tmp_path / "log", tmp_path / "new"
    path.write_text(line(1) + line(2) + line(3))
    tail = LogTail(path)
    tail.update()
    other.write_text(line(1))
    os.replace(other, path)  # as a resumed run does
    assert tail.update() and steps(tail) == [1] and tail.restarts == 1
    with path.open("a") as stream:
        stream.write(line(2))
    assert tail.update() and steps(tail) == [1, 2] and tail.restarts == 1


def test_a_log_that_is_cut_in_place_and_has_grown_again_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(line(1) + line(2) + line(3))
    tail = LogTail(path)
    tail.update()
    with path.open("r+") as stream:
        stream.truncate(len(line(1)))
        stream.seek(0, os.SEEK_END)
        stream.write(line(7) + line(8) + line(9) + line(10))
    assert tail.update() and steps(tail) == [1, 7, 8, 9, 10] and tail.restarts == 1


def test_a_log_that_is_deleted_keeps_its_rows_until_a_new_one_comes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(line(1))
    tail = LogTail(path)
    tail.update()
    path.unlink()
    assert not tail.update() and steps(tail) == [1] and tail.modified is None


def test_lines_that_are_no_objects_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("[1]\nnonsense\n" + line(1) + "[" * 100_000 + "\n" + line(2) + '{"cut": ')
    tail, lines = LogTail(path), Lines(path)
    tail.update()
    assert steps(tail) == [1, 2] == [row["step"] for row in lines]
    assert (tail.unreadable, lines.unreadable) == (3, 4), "the last line of a log may still be written"
    assert first_row(path) is None


def test_a_last_line_without_a_line_break_counts_where_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(line(1) + line(2).rstrip())
    assert [row["step"] for row in Lines(path)] == [1, 2]


def test_json_that_is_no_object_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert read_json(path) == {}
    path.write_text("[1]")
    assert read_json(path) == {}
    path.write_text('{"a": 1}')
    assert read_json(path) == {"a": 1}
