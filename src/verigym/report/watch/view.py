"""The screen of `verigym watch`, for a terminal of any width, with or without colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from verigym.envs.progress import duration
from verigym.report.record import number, text
from verigym.report.watch.sparkline import ASCII, BLOCKS, sparkline
from verigym.report.watch.state import RECENT, Series, State
from verigym.terminal import printable

NARROW = 70
"""Columns below which accuracy and length have no curves."""
STYLES = {"correct": "green", "partial": "cyan", "incorrect": "red", "error": "bright_black"}
NAMES = {"no_answer": "no answer", "error": "unscored"}
HEADS = {"reward": "reward", "accuracy": "accuracy", "completion_tokens": "tokens"}


def screen(state: State, width: int, unicode: bool = True) -> RenderableType:
    """Return the terminal view of a run.

    Args:
        state: the run's state.
        width: width of the terminal in columns.
        unicode: use block characters, which the terminal's encoding must have.
    """
    levels = BLOCKS if unicode else ASCII
    parts: list[RenderableType] = [_head(state, width, unicode)]
    if state.sources:
        parts += [Text(), _sources(state, width, levels)]
    if state.held_out:
        parts.append(_held_out(state, width, levels))
    if state.phases:
        parts.append(
            _line("phases", ", ".join(f"{name.replace('_', ' ')} {_seconds(value)}" for name, value in state.phases.items()))
        )
    if state.numbers:
        parts.append(
            _line("metrics", ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in state.numbers.items()))
        )
    if state.alarms:
        parts += [Text(), Text(f"alarms ({state.alarm_count})", "bold yellow")]
        parts += [_cut(Text(printable(alarm), "yellow"), 2 * width) for alarm in reversed(state.alarms)]
    if state.samples:
        parts += [Text(), Text("last samples", "bold"), *(_sample(row, width, unicode) for row in reversed(state.samples))]
    return Group(*parts)


def _head(state: State, width: int, unicode: bool) -> Text:
    line = Text(overflow="fold")
    line.append(printable(state.name), "bold")
    line.append(f"  step {state.step:,}" + (f" of {state.steps:,}" if state.steps else ""))
    if state.steps:
        share = min(1.0, state.step / state.steps)
        size = min(30, width // 4)
        full = round(share * size)
        line.append("  " + ("█" if unicode else "#") * full, "green")
        line.append(("░" if unicode else ".") * (size - full), "bright_black")
        line.append(f" {share:.0%}")
    line.append("\n")
    line.append(*_condition(state))
    if state.step_s is not None:
        line.append(f"  {_seconds(state.step_s)} a step", "bright_black")
    if state.left_s is not None:
        line.append(f", {_seconds(state.left_s)} left", "bright_black")
    if state.restarts:
        line.append(f"  resumed {state.restarts} time{'s' * (state.restarts > 1)} since this view began", "cyan")
    if state.unreadable:
        line.append(f"  {state.unreadable:,} lines of the log cannot be read", "yellow")
    return line


def _condition(state: State) -> tuple[str, str]:
    if state.finished:
        return "finished", "bold green"
    if state.age_s is None:
        return "waiting for metrics.jsonl", "yellow"
    if not state.sources and not state.step:
        return f"no step yet; the log was written {_seconds(state.age_s)} ago", "yellow"
    if state.stale:
        return f"no news for {_seconds(state.age_s)}: has it stopped?", "bold yellow"
    return f"running, last written {_seconds(state.age_s)} ago", "green"


def _sources(state: State, width: int, levels: str) -> Table:
    metrics = [name for name in HEADS if any(name in series for series in state.sources.values())]
    drawn = metrics if width >= NARROW else metrics[:1]
    label = max(3, min(18, max(len(printable(name)) for name in state.sources)))
    room = (width - label - 2 - 10 * len(metrics)) // max(1, len(drawn))
    table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False, header_style="bright_black")
    table.add_column(f"mean of {RECENT}" if label >= 10 else "", width=label, no_wrap=True, overflow="ellipsis")
    for name in metrics:
        table.add_column(HEADS[name], no_wrap=True, justify="right")
        if name in drawn:
            table.add_column("", no_wrap=True)
    for source, series in state.sources.items():
        cells: list[Text] = [Text(printable(source) if source else "all", "bold" if not source else "")]
        for name in metrics:
            one = series.get(name)
            cells.append(Text(_value(name, one)))
            if name in drawn:
                cells.append(Text(sparkline(one.values, max(4, min(40, room)), levels) if one else "", "cyan"))
        table.add_row(*cells)
    return table


def _value(name: str, series: Series | None) -> str:
    if series is None or series.last is None:
        return "-"
    return f"{series.last:.1f}" if name == "completion_tokens" else f"{series.last:.3f}"


def _held_out(state: State, width: int, levels: str) -> Text:
    first, last = state.held_out[0], state.held_out[-1]
    line = Text(overflow="fold")
    line.append("held out ", "bright_black")
    line.append(f"accuracy {first[1]:.3f} at step {first[0]}")
    if len(state.held_out) > 1:
        best = max(state.held_out, key=lambda pair: pair[1])
        line.append(f", {last[1]:.3f} at {last[0]}, best {best[1]:.3f} at {best[0]} ")
        line.append(sparkline([value for _, value in state.held_out], min(24, width // 4), levels), "cyan")
    return line


def _sample(row: Mapping[str, Any], width: int, unicode: bool) -> Text:
    status = text(row.get("status"))
    reward = number(row.get("reward"))
    line = Text(no_wrap=True, overflow="ellipsis" if unicode else "crop")
    line.append(f"{printable(NAMES.get(status, status))[:9]:9} ", STYLES.get(status, "yellow"))
    line.append(f"{'-' if reward is None else f'{reward:g}':>5} ")
    line.append(f"{printable(text(row.get('source')))[:12]} ", "bright_black")
    room = max(12, width - len(line.plain) - 1)
    asked, said = _flat(row.get("prompt")), _flat(row.get("completion"))
    answer_room = min(len(said), max(room // 2, room - len(asked) - 4))
    line.append(_tail(asked, room - answer_room - 4))
    line.append(" -> ", "bright_black")
    line.append(_tail(said, answer_room))
    return line


def _flat(value: Any) -> str:
    return printable(" ".join(text(value)[-2000:].split()))


def _tail(line: str, room: int) -> str:
    return line if len(line) <= room else f"..{line[len(line) - max(0, room - 2) :]}"


def _line(name: str, content: str) -> Text:
    line = Text(overflow="fold")
    line.append(f"{name} ", "bright_black")
    line.append(content)
    return line


def _cut(line: Text, most: int) -> Text:
    line.truncate(most, overflow="ellipsis")
    return line


def _seconds(seconds: float) -> str:
    """Return a time in words, below ten seconds with decimals."""
    if seconds < 10:
        return f"{seconds:.2f} s" if seconds >= 0.005 else "0 s"
    return duration(seconds)
