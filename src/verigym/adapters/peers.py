"""The table of adapters: what `verigym adapters` lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """A trainer or evaluator that verigym's environments plug into."""

    package: str
    """Its distribution on PyPI, or that of the client."""
    module: str
    """Our adapter."""
    hook: str
    """What of it we implement."""
    no_reward: str
    """What happens to a completion without a reward."""
    tried: str = ""
    """The version that the adapter's tests ran with; empty where it could not be installed."""
    wire: str = ""
    """What was tested in place of the whole, where that could not be installed, and why."""


PEERS: Mapping[str, Peer] = {
    "trl": Peer(
        package="trl",
        module="verigym.adapters.trl",
        hook="reward function; environment_factory for sources with tools",
        no_reward="None: TRL leaves it out of mean and deviation, advantage 0",
        tried="1.16.0",
    ),
    "verl": Peer(
        package="verl",
        module="verigym.adapters.verl",
        hook="compute_score for reward managers; an agent loop for tools and turns",
        no_reward="unscored=",
        tried="0.9.1",
        wire="reward managers and agent loop, with a scripted server: the trainer needs GPUs",
    ),
    "openrlhf": Peer(
        package="openrlhf",
        module="verigym.adapters.openrlhf",
        hook="reward function in a file, or an endpoint; sources of one turn",
        no_reward="unscored=",
        tried="0.11.2",
        wire="openrlhf.utils.agent alone: the rest needs flash-attn and deepspeed",
    ),
    "skyrl": Peer(
        package="skyrl-gym",
        module="verigym.adapters.skyrl",
        hook="BaseTextEnv, with tools and turns",
        no_reward="unscored=",
        tried="0.4.0",
        wire="skyrl-gym alone: the trainer needs GPUs",
    ),
    "art": Peer(
        package="openpipe-art",
        module="verigym.adapters.art",
        hook="async rollout of a model and a row, with tools and turns",
        no_reward="it raises: ART leaves the trajectory out",
        tried="0.5.18",
        wire="trajectories and groups with a scripted endpoint: the back end needs a GPU",
    ),
}
"""By name, which is that of our module. An adapter is registered here."""
