"""A run's estimate as a table for people."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table

from verigym.trainer.dry_run.estimate import RunEstimate, format_bytes, free_disk_bytes
from verigym.trainer.dry_run.formulas import evaluations


def tables(estimate: RunEstimate) -> Group:
    """Return what `--dry-run` prints."""
    return Group(_memory(estimate), _work(estimate))


def _memory(estimate: RunEstimate) -> Table:
    needs, config = estimate.memory, estimate.config
    adapters = f" and {sum(estimate.shape.trained):,} in adapters" if config.lora_rank else ""
    title = f"{estimate.shape.parameters:,} parameters{adapters}, {config.dtype}, native generation"
    table = Table(title=title, title_justify="left")
    table.add_column("memory, at most")
    table.add_column("", justify="right")
    rows = [
        ("weights", needs.weights),
        ("gradients", needs.gradients),
        ("AdamW's two moments", needs.optimizer),
        ("reference model", needs.reference),
        ("critic with its gradients and moments", needs.critic),
        ("generation: KV cache", needs.kv_cache),
        ("generation: logits of one token", needs.sampling),
        ("update: activations of a micro-batch", needs.activations),
        ("update: a chunk of logits", needs.logits),
    ]
    for name, size in rows:
        if size:
            table.add_row(name, format_bytes(size))
    table.add_section()
    table.add_row("all, generation and update in turn", format_bytes(needs.peak))
    table.add_row("free", "unknown" if estimate.free_bytes is None else format_bytes(estimate.free_bytes))
    table.add_section()
    table.add_row("checkpoints on disk", format_bytes(needs.checkpoints))
    table.add_row("free on disk", format_bytes(free_disk_bytes(config.output)))
    return table


def _work(estimate: RunEstimate) -> Table:
    config, steps, held_out = estimate.config, estimate.config.steps, estimate.held_out
    lengths = "every measured completion ended by itself" if estimate.ended == 1 else _guess(estimate)
    table = Table(caption=f"Completion lengths: {lengths}.", caption_justify="left")
    for name in ("work", "expected", "at most"):
        table.add_column(name, justify="left" if name == "work" else "right")

    loads = (estimate.expected, estimate.most)
    table.add_row("prompt tokens a step", *(f"{load.rows.read * load.rounds:,.0f}" for load in loads))
    table.add_row("completion tokens a step", *(f"{load.rows.written * load.rounds:,.0f}" for load in loads))
    table.add_row(f"completion tokens, {steps:,} steps", *(f"{load.rows.written * load.rounds * steps:,.0f}" for load in loads))
    table.add_section()
    table.add_row("generation and grading a step", *(_time(estimate.step_s(load)[0]) for load in loads))
    table.add_row("update a step", *(_time(estimate.step_s(load)[1]) for load in loads))
    if held_out and evaluations(config):
        name = f"evaluation of {held_out:,} completions, {evaluations(config)} times"
        table.add_row(name, *(_time(estimate.evaluation_s(load)) for load in loads))
    table.add_section()
    table.add_row("the whole run", *(_time(estimate.run_s(load)) for load in loads))
    return table


def _guess(estimate: RunEstimate) -> str:
    if estimate.ended == 0:
        return "no measured completion ended by itself, so the upper bound stands for the expectation"
    return f"{estimate.ended:.0%} of the measured completions ended by themselves, the others are guessed from those"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"
