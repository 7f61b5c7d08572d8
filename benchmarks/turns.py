"""What it saves to keep keys and values between the turns of episodes, and to let episodes go on freely while tools are slow.

    python benchmarks/turns.py [--episodes N] [--repeats N] [--workers N] [--hidden N] [--only NAME]

- `cache`: episodes of six turns by a random model, with `episode_cache_mb` and without: CPU seconds of sampling. Sessions
  are in processes of their own and not counted.
- `free`: the same episodes with replies that take 0.2 to 1.0 s, in lockstep and freely: wall time of the rollout. A worker
  answers one turn at a time, so `--workers` bounds how many replies are on the way.

The sides take turns, and every episode must have the same tokens on all sides: sampling is keyed. The last line is one JSON
object. A loaded machine stretches wall time, so check `uptime` first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from conversation_parts.waiting import WaitingEnvironment, words

MIB = 2**20


def made(hidden: int) -> tuple[Any, Any]:
    """Return a random model that one token in 24 ends, and its codec."""
    from verigym.trainer.models.codec import Codec
    from verigym.trainer.models.scratch import CONVERSATION_TEMPLATE, scratch_qwen3, scratch_tokenizer

    tokenizer = scratch_tokenizer([words(400, "text")] * 3, 400, template=CONVERSATION_TEMPLATE)
    tokenizer.add_special_tokens({"additional_special_tokens": [f"<end{number}>" for number in range(len(tokenizer) // 24)]})
    model = scratch_qwen3(tokenizer, hidden_size=hidden, layers=4, intermediate_size=2 * hidden, max_positions=4096)
    model.generation_config.eos_token_id = [number for number in tokenizer.all_special_ids if number != tokenizer.pad_token_id]
    return model, Codec(tokenizer, model.generation_config)


Roll = Callable[[int, str], tuple[list[tuple[int, ...]], float, float, float]]
"""Takes the cache's bytes and the order; returns the episodes' tokens, the wall time, the CPU time and the turns."""


def roller(env: WaitingEnvironment, sessions: Any, grader: Any, model: Any, codec: Any, episodes: int) -> Roll:
    """Return what plays all episodes once."""
    from verigym.trainer.engines.native.engine import NativeEngine
    from verigym.trainer.rollout.collect import collect
    from verigym.trainer.rollout.episodes import EpisodeLimits, Episodes
    from verigym.trainer.tasks.mixture import Source

    tasks = []
    for number in range(max(1, episodes // 4)):
        prompt = env.prompt(words(env.options.prompt_words, "task", number))
        tasks.append((Source("waiting", env, 1.0, lambda index, prompt=prompt: prompt, ()), prompt))
    limits = EpisodeLimits(env.options.turns, 4096, 128, 4096)

    def roll(cache_bytes: int, order: Any) -> tuple[list[tuple[int, ...]], float, float, float]:
        engine = NativeEngine(model, codec, rows_at_a_time=512, dtype="fp32", episode_cache_bytes=cache_bytes)
        wall, cpu = time.perf_counter(), time.process_time()
        groups = collect(
            engine,
            codec,
            lambda source: grader,
            tasks,
            samples=4,
            key=("turns",),
            max_new_tokens=4096,
            temperature=1.0,
            episodes=Episodes(codec, {"waiting": sessions}, limits, order),
        )
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        played = [done for group in groups for done in group.generated]
        turns = statistics.mean(len(done.turns) for done in played)
        return [done.token_ids for done in played], wall, cpu, turns

    return roll


def compared(roll: Roll, sides: Sequence[tuple[str, int, str]], repeats: int) -> dict[str, tuple[float, float, float]]:
    """Return the median wall and CPU seconds of each side, and the mean number of turns."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name, _, _ in sides}
    expected: list[tuple[int, ...]] | None = None
    for number in range(repeats + 1):
        for name, cache_bytes, order in sides:
            tokens, wall, cpu, turns = roll(cache_bytes, order)
            expected = expected or tokens
            assert tokens == expected, f"{name}: other tokens"
            if number:  # the first round warms up
                found[name].append((wall, cpu, turns))
    return {name: tuple(map(statistics.median, zip(*rows, strict=True))) for name, rows in found.items()}  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--only", choices=("cache", "free"), help="measure this alone")
    arguments = parser.parse_args()

    import torch

    from verigym.envs.grading import Grader
    from verigym.envs.sessions import Sessions

    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {arguments.episodes} episodes")
    model, codec = made(arguments.hidden)
    results = {}
    no_wait: dict[str, float] = {}
    for name, options, sides in (
        ("cache", no_wait, (("kept", 1024 * MIB, "lockstep"), ("again", 0, "lockstep"))),
        ("free", {"least_s": 0.2, "most_s": 1.0}, (("free", 1024 * MIB, "free"), ("lockstep", 1024 * MIB, "lockstep"))),
    ):
        if arguments.only not in (None, name):
            continue
        env = WaitingEnvironment(**options)
        with Grader(env, workers=0) as grader, Sessions({env.name: env}, workers=arguments.workers) as sessions:
            sessions.start()
            medians = compared(roller(env, sessions, grader, model, codec, arguments.episodes), sides, arguments.repeats)
        for side, (wall, cpu, turns) in medians.items():
            print(f"  {name:<6} {side:<9} {wall:7.2f} s wall   {cpu:7.2f} s CPU   {turns:.2f} turns an episode")
        (ours_wall, ours_cpu, _), (other_wall, other_cpu, _) = medians.values()
        results[name] = {"wall_saved": round(1 - ours_wall / other_wall, 3), "cpu_saved": round(1 - ours_cpu / other_cpu, 3)}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
