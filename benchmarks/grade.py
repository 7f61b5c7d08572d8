"""`verigym grade` streams: peak memory on many rows over that on 1,000 rows, and rows a second.

    python benchmarks/grade.py [--quick] [--workers N]

The last line is one JSON object: `memory_many_over_1k` (target: at most 1.2), `rows_per_s`, `peak_mib`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FEW = 1_000
# VmHWM is the program's own peak; ru_maxrss would include what this process held when it forked.
PROGRAM = """
import sys
from verigym.cli import main
assert main(sys.argv[1:]) == 0
print("PEAK", next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def write(path: Path, rows: int) -> None:
    """Four samples a prompt, about 600 bytes a row, half of them right."""
    with path.open("w", encoding="utf-8") as file:
        for index in range(rows):
            question = index // 4
            answer = question if index % 2 else question + 1
            text = f"{'So it goes, step by step. ' * 20}It is \\boxed{{{answer}}}."
            file.write(json.dumps({"prompt": f"What is {question}+0?", "answer": str(question), "completion": text}) + "\n")


def grade(folder: Path, rows: int, workers: int) -> tuple[float, float]:
    """Return (peak MiB of the main process, seconds), interpreter start included."""
    source = folder / f"in{rows}.jsonl"
    write(source, rows)
    arguments = ["grade", str(source), "--env", "math", "--out", str(folder / f"out{rows}.jsonl"), "--workers", str(workers)]
    start = time.perf_counter()
    command = [sys.executable, "-c", PROGRAM, *arguments, "--k", "1,4"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    with (folder / f"out{rows}.jsonl").open("rb") as file:
        assert sum(1 for _ in file) == rows
    return int(done.stdout.rpartition("PEAK")[2]) / 1024, seconds


def main(many: int, workers: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        few_mib, few_s = grade(Path(name), FEW, workers)
        many_mib, many_s = grade(Path(name), many, workers)
    print(f"{len(os.sched_getaffinity(0))} cores, {workers} grading workers")
    print(f"{'rows':>8s} {'peak MiB':>9s} {'seconds':>8s}")
    for rows, mib, seconds in ((FEW, few_mib, few_s), (many, many_mib, many_s)):
        print(f"{rows:8d} {mib:9.1f} {seconds:8.1f}")
    # The difference leaves the start of the interpreter and of the workers out.
    rate = (many - FEW) / max(many_s - few_s, 1e-9)
    result = {"memory_many_over_1k": round(many_mib / few_mib, 3), "rows_per_s": round(rate), "peak_mib": round(many_mib, 1)}
    print(json.dumps(result))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="10,000 rows instead of 100,000")
    arguments.add_argument("--workers", type=int, default=1, help="grading processes; 0 grades in the main process")
    given = arguments.parse_args()
    main(10_000 if given.quick else 100_000, given.workers)
