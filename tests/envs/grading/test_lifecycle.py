"""Workers start when needed, end with their grader or its process, and say clearly when they cannot start."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from held import Held
from processes import alive, children, eventually
from sample_envs import ExactEnvironment, ScriptedEnvironment, UnsendableEnvironment

from verigym.envs import UsageError
from verigym.envs.grading import Grader

SUPPORT = str(Path(__file__).parents[1] / "support")


def test_close_leaves_no_process_thread_or_open_item(caplog: pytest.LogCaptureFixture):
    env = ScriptedEnvironment()
    held = Held()
    grader = Grader(env, workers=2)
    futures = [grader.submit(env.prompt(f"q{i}", answer="1"), "HANG") for i in range(5)]
    assert eventually(lambda: len(held.new_children()) == 2, 300)
    start = time.monotonic()
    grader.close()
    assert time.monotonic() - start < 300  # they hang for ten minutes
    assert held.new_children() == set()
    assert held.new_threads() == set()
    assert [f.result(timeout=0).error.kind for f in futures] == ["unavailable"] * 5
    assert "closed" not in caplog.text
    grader.close()


def test_workers_start_only_when_needed():
    env = ExactEnvironment()
    held = Held()
    with Grader(env, workers=2) as grader:
        assert held.new_children() == set()
        grader.grade([(env.prompt("q", answer="1"), "x")])
        assert len(held.new_children()) == 1
        grader.start()
        assert len(held.new_children()) == 2


@pytest.mark.slow
def test_no_descriptor_is_left_open():
    env = ScriptedEnvironment()
    with Grader(env, workers=1) as grader:  # multiprocessing's own tracker starts with the first
        grader.start()
    held = Held()
    with Grader(env, workers=1) as grader:
        grader.grade([(env.prompt("q", answer="1"), "DIE")])
    assert held.new_descriptors() == []


def test_an_environment_that_cannot_be_sent_is_an_error_that_says_what_to_do():
    env = UnsendableEnvironment()
    with Grader(env, workers=2) as grader:
        with pytest.raises(UsageError, match="cannot be sent to a worker process.*importable.*workers=0"):
            grader.start()
    with Grader(env, workers=2) as grader:
        with pytest.raises(UsageError, match="cannot be sent to a worker process.*importable.*workers=0"):
            grader.grade((env.prompt(f"q{i}", answer="1"), "answer: 1") for i in range(20))
        with pytest.raises(UsageError, match="cannot be sent to a worker process"):
            grader.submit(env.prompt("q", answer="1"), "answer: 1")
    with Grader(env, workers=0) as grader:
        assert grader.grade([(env.prompt("q", answer="1"), "answer: 1")])[0].reward == 1.0


def run(tmp_path, body, **kwargs):
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nsys.path.append({SUPPORT!r})\n" + textwrap.dedent(body))
    return subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)


@pytest.mark.parametrize(
    "ask",
    [
        "grader.grade([item] * 3)",
        "list(grader.stream([item] * 3))",
        "grader.submit(*item).result()",
        "[one.result() for one in grader.submit_group(item[0], ['a', 'b'])]",
        "grader.start()",
        "__import__('asyncio').run(grader.agrade([item] * 3))",
    ],
)
@pytest.mark.slow
def test_a_script_without_a_main_guard_ends_with_one_error_that_says_what_to_write(tmp_path, ask):
    process = run(
        tmp_path,
        f"""
        from sample_envs import ExactEnvironment
        from verigym.envs.grading import Grader
        env = ExactEnvironment()
        item = env.prompt("q", answer="1"), "answer: 1"
        with Grader(env, workers=2) as grader:
            print({ask})
        print("went on")
        """,
    )
    out, error = process.communicate(timeout=600)
    assert process.returncode == 1 and out == ""
    assert error.count("Traceback") == 1, "the worker is silent"
    assert error.splitlines()[-1].startswith("verigym.envs.contract.errors.UsageError: no grading worker can be started: ")
    assert "put what grades under `if __name__ == '__main__':`" in error and "workers=0" in error


HANGING_SCRIPT = """
    import os, time
    from sample_envs import ScriptedEnvironment
    from verigym.envs.grading import Grader
    if __name__ == "__main__":
        env = ScriptedEnvironment()
        grader = Grader(env, workers=2)
        grader.start()
        futures = [grader.submit(env.prompt(f"q{i}", answer="1"), "HANG") for i in range(4)]
        print("ready", flush=True)
        %s
"""


@pytest.mark.parametrize(
    ("ending", "signals"),
    [("futures[0].result()", signal.SIGKILL), ("futures[0].result()", signal.SIGINT), ("time.sleep(0.2)", None)],
    ids=["killed", "ctrl-c", "ends without close"],
)
@pytest.mark.slow
def test_workers_end_with_their_parent(tmp_path, ending, signals):
    process = run(tmp_path, HANGING_SCRIPT % ending)
    assert process.stdout.readline() == "ready\n"
    workers = children(process.pid)
    assert len(workers) == 2
    if signals is not None:
        process.send_signal(signals)
    _, err = process.communicate(timeout=300)
    assert eventually(lambda: not any(alive(pid) for pid in workers), 300)
    if signals is signal.SIGINT:
        assert "KeyboardInterrupt" in err


def test_workers_that_are_starting_are_silent_on_ctrl_c(tmp_path):
    script = HANGING_SCRIPT.replace("grader.start()", "print('begun', flush=True); grader.start()") % "futures[0].result()"
    process = run(tmp_path, script, start_new_session=True)
    assert process.stdout.readline() == "begun\n"
    assert eventually(lambda: len(children(process.pid)) >= 2, 300)  # the workers, or one and multiprocessing's own
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=600)
    assert process.returncode != 0 and err.count("Traceback") == 1, err


FORKED_SCRIPT = """
    import os
    from sample_envs import ScriptedEnvironment
    from verigym.envs.contract.errors import UsageError
    from verigym.envs.grading import Grader
    if __name__ == "__main__":
        env = ScriptedEnvironment()
        item = (env.prompt("q", answer="1"), "1")
        with Grader(env, workers=1) as grader:
            %s
            child = os.fork()
            if not child:
                try:
                    print(grader.grade([item])[0].status, flush=True)
                except UsageError as error:
                    print(error, flush=True)
                os._exit(0)
            os.waitpid(child, 0)
            print(grader.grade([item])[0].status, flush=True)
"""


@pytest.mark.slow
def test_a_fork_is_told_that_the_workers_are_its_parent_s(tmp_path):
    process = run(tmp_path, FORKED_SCRIPT % "grader.start()")
    out, err = process.communicate(timeout=600)
    told, parent = out.splitlines()
    assert told.startswith("the grader's workers were started in process") and "make new ones here" in told, err
    assert parent == "no_answer", "the parent goes on"
