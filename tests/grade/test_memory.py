import json
import subprocess
import sys

import pytest

# VmHWM is this program's own peak; ru_maxrss would include what the test process held when it forked.
PROGRAM = """
import sys
from verigym.cli import main
assert main(sys.argv[1:]) == 0
print("PEAK", next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak_kib(folder, rows):
    source = folder / f"in{rows}.jsonl"
    with source.open("w") as stream:
        for i in range(rows):
            row = {"prompt": f"What is {i}+0?", "answer": str(i), "completion": f"{'So it goes. ' * 40} \\boxed{{{i}}}"}
            stream.write(json.dumps(row) + "\n")
    arguments = ["grade", str(source), "--env", "math", "--out", str(folder / f"out{rows}.jsonl"), "--workers", "0"]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout.rpartition("PEAK")[2])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path):
    assert peak_kib(tmp_path, 8000) <= 1.15 * peak_kib(tmp_path, 400)
