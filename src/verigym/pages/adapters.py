"""The adapters, for docs/adapters.md."""

from __future__ import annotations

from verigym.adapters.peers import PEERS
from verigym.pages.markdown import table


def blocks() -> tuple[str, ...]:
    """Return the table of adapters, with the hook of each, how it handles a missing reward, and the tested version."""
    rows = (
        (f"`{name}`", peer.hook, peer.no_reward, f"{peer.package} {peer.tried}".strip(), peer.wire or "installed whole")
        for name, peer in PEERS.items()
    )
    return (table(("adapter", "hook", "no reward", "tried with", "of it"), rows),)
