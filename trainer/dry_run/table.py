"""A run's price as a table for people."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table

from verigym.trainer.dry_run.estimate import Price, free_disk_bytes, gib
from verigym.trainer.dry_run.formulas import evaluations


def tables(price: Price) -> Group:
    """Return what `--dry-run` prints."""
    return Group(_memory(price), _work(price))


def _memory(price: Price) -> Table:
    needs, config = price.memory, price.config
    adapters = f" and {sum(price.outline.trained):,} in adapters" if config.lora_rank else ""
    title = f"{price.outline.parameters:,} parameters{adapters}, {config.dtype}, native generation"
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
            table.add_row(name, gib(size))
    table.add_section()
    table.add_row("all, generation and update in turn", gib(needs.peak))
    table.add_row("free", "unknown" if price.free_bytes is None else gib(price.free_bytes))
    table.add_section()
    table.add_row("checkpoints on disk", gib(needs.checkpoints))
    table.add_row("free on disk", gib(free_disk_bytes(config.output)))
    return table


def _work(price: Price) -> Table:
    config, steps, held_out = price.config, price.config.steps, price.held_out
    lengths = "every measured completion ended by itself" if price.ended == 1 else _guess(price)
    table = Table(caption=f"Completion lengths: {lengths}.", caption_justify="left")
    for name in ("work", "expected", "at most"):
        table.add_column(name, justify="left" if name == "work" else "right")

    loads = (price.expected, price.most)
    table.add_row("prompt tokens a step", *(f"{load.rows.read * load.rounds:,.0f}" for load in loads))
    table.add_row("completion tokens a step", *(f"{load.rows.written * load.rounds:,.0f}" for load in loads))
    table.add_row(f"completion tokens, {steps:,} steps", *(f"{load.rows.written * load.rounds * steps:,.0f}" for load in loads))
    table.add_section()
    table.add_row("generation and grading a step", *(_time(price.step_s(load)[0]) for load in loads))
    table.add_row("update a step", *(_time(price.step_s(load)[1]) for load in loads))
    if held_out and evaluations(config):
        name = f"evaluation of {held_out:,} completions, {evaluations(config)} times"
        table.add_row(name, *(_time(price.evaluation_s(load)) for load in loads))
    table.add_section()
    table.add_row("the whole run", *(_time(price.run_s(load)) for load in loads))
    return table


def _guess(price: Price) -> str:
    if price.ended == 0:
        return "no measured completion ended by itself, so the upper bound stands for the expectation"
    return f"{price.ended:.0%} of the measured completions ended by themselves, the others are guessed from those"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"
