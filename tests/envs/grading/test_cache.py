import gc
import sqlite3
import threading

import pytest
from sample_envs import ExactEnvironment, FlakyEnvironment, ScriptedEnvironment

from verigym.envs import Score, Status, UsageError
from verigym.envs.grading import Grader
from verigym.envs.grading.cache import ScoreCache


def test_verdicts_survive_the_grader(tmp_path):
    env = ExactEnvironment()
    work = [(env.prompt(f"q{i}", answer="1"), f"answer: {i}") for i in range(10)]
    with Grader(env, workers=1, cache=tmp_path / "deep" / "cache.db") as grader:
        first = grader.grade(work)
        assert grader.stats.cache_hits == 0
    with Grader(env, workers=1, cache=tmp_path / "deep" / "cache.db") as grader:
        assert grader.grade(work) == first
        assert grader.stats.cache_hits == 10


def test_other_options_are_another_grader(tmp_path):
    cache = tmp_path / "cache.db"
    prompt = ExactEnvironment().prompt("q", answer="1")
    for env, reward in [(ExactEnvironment(), 1.0), (ExactEnvironment(strip=False), 0.0)]:
        with Grader(env, workers=0, cache=cache) as grader:
            assert grader.grade([(prompt, "answer: 1 ")])[0].reward == reward
            assert grader.stats.cache_hits == 0


def test_errors_and_limits_of_the_run_are_never_kept(tmp_path):
    cache = tmp_path / "cache.db"
    flaky = FlakyEnvironment(folder=str(tmp_path), failures=1)
    scripted = ScriptedEnvironment()
    work = [(flaky.prompt("q", answer="1"), "answer: 1"), (scripted.prompt("q", answer="1"), "DIE")]
    with Grader([flaky, scripted], workers=1, retries=0, cache=cache) as grader:
        assert [s.status for s in grader.grade(work)] == [Status.ERROR, Status.LIMIT]
    with Grader([flaky, scripted], workers=1, retries=0, cache=cache) as grader:
        assert [s.status for s in grader.grade(work)] == [Status.CORRECT, Status.LIMIT]
        assert grader.stats.cache_hits == 0


def test_threads_and_connections_share_a_file(tmp_path):
    caches = [ScoreCache(tmp_path / "cache.db") for _ in range(2)]

    def fill(n):
        for i in range(50):
            caches[n % 2].put(f"{n}-{i}", Score.correct(answer=f"{n}-{i}"))

    threads = [threading.Thread(target=fill, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(caches[0].get(f"{n}-{i}").answer == f"{n}-{i}" for n in range(4) for i in range(50))
    for cache in caches:
        cache.close()
    assert caches[0].get("0-0") is None


def test_what_is_not_a_cache_is_refused_and_left_alone(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("these are my notes, not a database " * 100)
    with pytest.raises(UsageError, match=r"notes\.txt: not a usable verdict cache.*delete it or choose another path"):
        ScoreCache(text)
    assert text.read_text().startswith("these are my notes")
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(UsageError, match="another program's database"):
        ScoreCache(other)
    with pytest.raises(UsageError, match="cannot be opened"):
        ScoreCache(text / "below" / "a file")


def test_a_damaged_cache_is_refused(tmp_path):
    path = tmp_path / "cache.db"
    cache = ScoreCache(path)
    for i in range(200):
        cache.put(str(i), Score.correct(reason="x" * 500))
    cache.close()
    data = bytearray(path.read_bytes())
    data[8192:40960] = b"\xff" * (40960 - 8192)
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"cache\.db: not a usable verdict cache"):
        ScoreCache(path)


def test_a_cache_that_nobody_holds_closes_its_file(tmp_path):
    cache = ScoreCache(tmp_path / "cache.db")
    cache.put("a", Score.correct())
    assert (tmp_path / "cache.db-wal").exists()
    del cache
    gc.collect()
    assert not (tmp_path / "cache.db-wal").exists(), "SQLite removes it with the last connection"


def test_an_entry_that_is_no_score_is_a_miss(tmp_path):
    cache = ScoreCache(tmp_path / "cache.db")
    cache._run("INSERT INTO scores VALUES (?, ?)", "k", '{"reward": 1}')
    assert cache.get("k") is None
    cache.put("k", Score.failed("internal", "no"))
    assert cache.get("k") is None
    cache.put("k", Score.correct())
    assert cache.get("k") == Score.correct()
    cache.close()
