"""`verigym adapters`: the trainers and evaluators that environments plug into."""

from __future__ import annotations

from dataclasses import asdict

from verigym.cli.common.json_output import Json, Result, json_output
from verigym.exit_codes import ExitCode


@json_output
def adapters(as_json: Json = False) -> Result:
    """List the trainers and evaluators in which environments can be used, and the versions that were tested."""
    from verigym.adapters.peers import PEERS
    from verigym.envs.extras import installed

    here = installed(peer.package for peer in PEERS.values())
    width = max(map(len, PEERS))
    for name, peer in PEERS.items():
        found = f"installed {here[peer.package]}" if peer.package in here else "not installed"
        print(f"{name:<{width}}  {peer.module}: {peer.hook}")
        print(f"{'':<{width}}  {peer.package}, tried {peer.tried or 'never'}, {found}; no reward: {peer.no_reward}")
        if peer.wire:
            print(f"{'':<{width}}  tried {peer.wire}")
    return Result(ExitCode.OK, {name: {**asdict(peer), "installed": here.get(peer.package)} for name, peer in PEERS.items()})
