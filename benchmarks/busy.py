"""What other programs on the machine, and a container's quota, cost: training, sampling, grading and the sandbox.

    python benchmarks/busy.py --output DIR [--only train grade sandbox] [--quickstart] [--steps N]

Each job runs alone, beside 1, 2 and 4 busy loops, and in a control group with half a core and with one (as root, where groups
can be made). The training job is the README's example from the quickstart's cold start, which is made in DIR once. Its control
has libgomp's own waits and one thread per core, as torch chooses them.

Printed are seconds of wall time and of CPU time, and ratios to the same job alone. `--quickstart` also times a quickstart of 20
steps alone and beside one busy loop. The last line is one JSON object. The figures are for an otherwise idle machine: check
`uptime` first.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOOPS = (0, 1, 2, 4)
QUOTAS = (1.0, 0.5)
"""In cores."""
PERIOD_US = 100_000
LIBGOMP = {"GOMP_SPINCOUNT": "300000"}
"""Its own default."""
SANDBOX = """
import time
from verigym.sandbox import Limits, Program, open_sandbox
if __name__ == "__main__":
    box = open_sandbox("local")
    box.run(Program(source="print(1)"))
    start = time.perf_counter()
    for number in range(60):
        assert box.run(Program(source="print(sum(range(30000)))"), limits=Limits(wall_s=60)).status == "ok"
    print(time.perf_counter() - start)
"""


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """Run `loops` processes that never wait. They end with this process, however it ends."""
    endless = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
    running = [subprocess.Popen([sys.executable, "-c", endless]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextlib.contextmanager
def quota(cores: float | None) -> Iterator[str | None]:
    """Make a control group of version 1 or 2 with a CPU quota, and yield the file that takes its processes; None without one.

    Raises:
        OSError: no group can be made here.
    """
    if cores is None:
        yield None
        return
    version_1 = Path("/sys/fs/cgroup/cpu")
    group = (version_1 if version_1.is_dir() else Path("/sys/fs/cgroup")) / f"verigym-busy-{os.getpid()}"
    group.mkdir()
    try:
        if version_1.is_dir():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(cores * PERIOD_US)))
        else:
            (group / "cpu.max").write_text(f"{int(cores * PERIOD_US)} {PERIOD_US}")
        yield str(group / "cgroup.procs")
    finally:
        for _ in range(100):  # its last process may not be gone yet
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def run(command: list[str], group: str | None, environment: dict[str, str]) -> tuple[str, float, float]:
    """Run `command` and return its output, and its seconds of wall and CPU time, with those of all that it started."""
    if group is not None:
        command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', group, *command]
    cpu, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, time.perf_counter() - start, after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime


def train(folder: Path, steps: int, group: str | None, control: bool) -> dict[str, float]:
    """Train for `steps` steps; return the median seconds of a step, of its generation and of its update, and the CPU time."""
    output = folder / "run"
    shutil.rmtree(output, ignore_errors=True)
    config = {
        "model": str(folder / "quickstart" / "cold_start"),
        "output": str(output),
        "sources": [
            {"environment": "arithmetic", "weight": 2, "options": {"digits": 2, "operations": "+-"}},
            {"environment": "story", "format": {}},
        ],
        "steps": steps,
        "prompts_per_step": 8,
        "max_new_tokens": 40,
        "learning_rate": 3.0e-4,
        "eval_every": 0,
        "loggers": [],
        **({"threads": len(os.sched_getaffinity(0))} if control else {}),
    }
    (folder / "run.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "verigym", "train", "--config", str(folder / "run.yaml")]
    _, _, cpu_s = run(command, group, LIBGOMP if control else {})
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    kept = [row for row in rows if row["kind"] == "train"][2:]  # the first ones load kernels and start workers
    names = {"step_s": "step_s", "generation_s": "generate_grade_s", "update_s": "update_s"}
    return {name: statistics.median(row[key] for row in kept) for name, key in names.items()} | {"cpu_s": cpu_s}


def grade(folder: Path, group: str | None) -> dict[str, float]:
    """Grade 4,000 completions from a file; return the seconds of wall and CPU time, start-up included."""
    rows, output = folder / "rows.jsonl", folder / "scores.jsonl"
    if not rows.exists():
        answers = ((n, n if n % 3 else n + 1) for n in range(4000))
        line = '{{"question": "What is {0} + {0}?", "gold": "{1}", "text": "It is \\\\boxed{{{2}}}."}}\n'
        rows.write_text("".join(line.format(n, 2 * n, n + answer) for n, answer in answers))
    for path in folder.glob("scores.jsonl*"):
        path.unlink()
    columns = ["--prompt-column", "question", "--completion-column", "text", "--reference", "answer=gold"]
    command = [sys.executable, "-m", "verigym", "grade", str(rows), "--env", "math", *columns, "--out", str(output)]
    _, wall_s, cpu_s = run(command, group, {})
    return {"wall_s": wall_s, "cpu_s": cpu_s}


def sandbox(folder: Path, group: str | None) -> dict[str, float]:
    """Run 60 programs; return the seconds of wall time without start-up, and of CPU time."""
    script = folder / "programs.py"
    script.write_text(SANDBOX)
    printed, _, cpu_s = run([sys.executable, str(script)], group, {})
    return {"wall_s": float(printed), "cpu_s": cpu_s}


def measure(job: str, folder: Path, steps: int, group: str | None) -> dict[str, float]:
    """Run one job and return its figures."""
    if job == "grade":
        return grade(folder, group)
    if job == "sandbox":
        return sandbox(folder, group)
    return train(folder, steps, group, control=job == "control")


def time_quickstart(folder: Path, loops: int) -> float:
    """Return the seconds of a quickstart of 20 steps beside `loops` busy loops."""
    output = folder / "timed_quickstart"
    shutil.rmtree(output, ignore_errors=True)
    with busy(loops):
        return run([sys.executable, "-m", "verigym", "quickstart", "--steps", "20", "--output", str(output)], None, {})[1]


def conditions(job: str) -> Iterator[tuple[str, int, float | None]]:
    """Yield the name of each condition of `job`, its busy loops and its quota. The control, which is slow, has few."""
    few = job == "control"
    yield from ((f"beside {loops}" if loops else "alone", loops, None) for loops in LOOPS[: 2 if few else None])
    yield from ((f"{cores:g} cores", 0, cores) for cores in QUOTAS if not few)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", nargs="+", choices=("train", "grade", "sandbox"), default=("train", "grade", "sandbox"))
    parser.add_argument("--quickstart", action="store_true")
    parser.add_argument("--steps", type=int, default=14)
    arguments = parser.parse_args()
    if arguments.output is None:
        print("busy: nothing is run without --output DIR, because it takes a quarter of an hour")
        print(json.dumps({}))
        return
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    found: dict[str, Any] = {}
    if "train" in arguments.only:
        run([sys.executable, "-m", "verigym", "quickstart", "--steps", "1", "--output", str(folder / "quickstart")], None, {})
    jobs = [job for name in arguments.only for job in (("train", "control") if name == "train" else (name,))]
    for job in jobs:
        for name, loops, cores in conditions(job):
            try:
                with quota(cores) as group, busy(loops):
                    found.setdefault(job, {})[name] = measure(job, folder, arguments.steps, group)
            except OSError as error:
                print(f"  {job} {name}: not measured, no control group can be made ({error})")
                continue
            figures, alone = found[job][name], found[job]["alone"]
            shown = "  ".join(f"{key} {value:.3f} ({value / alone[key]:.2f})" for key, value in figures.items())
            print(f"  {job:8s} {name:10s} {shown}", flush=True)
    if "train" in arguments.only:
        ratio = found["train"]["alone"]["step_s"] / found["control"]["alone"]["step_s"]
        print(f"  a step alone takes {ratio:.2f} times that of the control")
        found["alone_to_control"] = ratio
    if arguments.quickstart:
        seconds = [time_quickstart(folder, loops) for loops in (0, 1)]
        print(f"  quickstart {seconds[0]:.1f} s alone, {seconds[1]:.1f} s beside one busy loop ({seconds[1] / seconds[0]:.2f})")
        found["quickstart_s"] = seconds
    print(json.dumps(found))


if __name__ == "__main__":
    main()
