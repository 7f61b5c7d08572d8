"""A grader that nobody holds any more ends its workers, and no script waits for them at its end."""

import gc
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sample_envs import ExactEnvironment

from verigym.envs import Grader

CALL = 'r(prompts=["q"], completions=["\\\\boxed{2}"], answer=["2"])'
SCRIPTS = {
    "a local variable": f"def main():\n    r = verigym.reward_function('math', workers=1)\n    print({CALL})",
    "a name given to another": f"""def main():
    global r
    r = verigym.reward_function("math", workers=1)
    print({CALL})
    r = verigym.reward_function("match", workers=1)""",
    "a cycle": f"""def main():
    class Trainer: pass
    trainer = Trainer()
    trainer.me, trainer.r = trainer, verigym.reward_function("math", workers=1)
    r = trainer.r
    print({CALL})""",
    "nothing": f"def main():\n    print(verigym.reward_function('math', workers=1){CALL[1:]})",
}


SCRIPTS["a process that multiprocessing started"] = f"""def child():
    r = verigym.reward_function("math", workers=1)
    print({CALL}, flush=True)

def main():
    import multiprocessing
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()"""
SCRIPTS["a module, made as it is imported"] = f"""r = verigym.reward_function("math", workers=1)
def main():
    print({CALL})"""


@pytest.mark.parametrize("held_by", SCRIPTS)
@pytest.mark.slow
def test_a_script_ends(held_by: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import verigym\n\n{SCRIPTS[held_by]}\n\nif __name__ == '__main__':\n    main()\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=3000, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("[1.0]\n", 0), done.stderr


def test_its_workers_end_soon() -> None:
    grader = Grader(ExactEnvironment(), workers=2)
    grader.start()
    threads = [thread for thread, _ in grader._engine._slots]
    del grader
    gc.collect()
    until = time.monotonic() + 300
    while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(thread.is_alive() for thread in threads)


def test_a_future_keeps_its_grader() -> None:
    env = ExactEnvironment()
    future = Grader(env, workers=1).submit(env.prompt("q", answer="4"), "answer: 4")
    gc.collect()
    assert future.result(timeout=300).reward == 1.0
