"""Metrics of episodes, for each source: turns, calls of tools, faults, replies, and how much of the context was used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from verigym.trainer.rollout.collect import Group


def episode_metrics(groups: Sequence[Group], positions: int | None = None) -> dict[str, float]:
    """Return the metrics of the groups that have episodes; empty if no group has.

    Each metric is computed for each source. `turns` (of the assistant), `calls`, `calls/TOOL`, `tool_exceptions` and
    `read_tokens` are means per episode. `malformed_calls` is the share of calls with a fault, `reply_s` the mean time of a
    reply in seconds, and `episodes_cut_off` the share of episodes that a limit ended. If `positions` is given, `context_used`
    is the largest share of the positions that an episode used.

    Args:
        groups: the groups of one step.
        positions: most tokens of prompt and episode together.
    """
    metrics: dict[str, float] = {}
    for label in dict.fromkeys(group.source for group in groups if group.episodes):
        members = [group for group in groups if group.source == label and group.episodes]
        episodes = [episode for group in members for episode in group.episodes]
        turns = [[turn for turn in episode.turns if turn.role == "assistant"] for episode in episodes]
        calls = [call for written in turns for turn in written for call in turn.calls]
        by_tool = Counter(call.name for call in calls if call.fault is None)
        exceptions = [(episode.outcome or {}).get("tool_exceptions") for episode in episodes]
        found = {
            "turns": fmean(map(len, turns)),
            "calls": len(calls) / len(episodes),
            **{f"calls/{name}": count / len(episodes) for name, count in sorted(by_tool.items())},
            "tool_exceptions": sum(len(one) for one in exceptions if isinstance(one, list)) / len(episodes),
            "episodes_cut_off": fmean(episode.cut_off for episode in episodes),
            "read_tokens": fmean(len(done.token_ids) - done.length for group in members for done in group.generated),
        }
        if calls:
            found["malformed_calls"] = sum(call.fault is not None for call in calls) / len(calls)
        if seconds := [one for group in members for one in group.reply_s]:
            found["reply_s"] = fmean(seconds)
        if positions is not None:
            most = max(len(group.prompt_ids) + len(done.token_ids) for group in members for done in group.generated)
            found["context_used"] = most / positions
        metrics |= {f"{label}/{name}": value for name, value in found.items()}
    return metrics
