"""The table of adapters: what `verigym adapters` lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """Description of a trainer or evaluator in which verigym's environments can be used."""

    package: str
    """Its distribution on PyPI, or that of the client."""
    module: str
    """Our adapter."""
    hook: str
    """What of it we implement."""
    no_reward: str
    """What happens to a completion without a reward."""
    tried: str = ""
    """Version of the package that the adapter's tests ran with; empty if the package could not be installed."""
    wire: str = ""
    """If the whole package could not be installed or run: which part of it was tested, and why only this part. Else empty."""


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
    "verifiers": Peer(
        package="verifiers",
        module="verigym.adapters.verifiers",
        hook="Taskset and Env, with tools and turns; VerifiersEnvironment judges by a taskset of theirs",
        no_reward="it raises: the trace is not ok, and prime-rl leaves it out",
        tried="0.4.0",
        wire="Env, Rollout and Task with a harness that asks in process: the bundled ones need uv",
    ),
    "inspect_ai": Peer(
        package="inspect-ai",
        module="verigym.adapters.inspect_ai",
        hook="scorer; held-out rows as a Task, with tools and turns",
        no_reward="Score.unscored: inspect leaves it out and counts it",
        tried="0.3.285",
    ),
    "lighteval": Peer(
        package="lighteval",
        module="verigym.adapters.lighteval",
        hook="metric; held-out rows of one turn as tasks",
        no_reward="NaN, which our aggregate leaves out and counts",
        tried="0.13.0",
        wire="the pipeline without lighteval's own tasks: some fetch files as they are read",
    ),
    "nemo_gym": Peer(
        package="nemo-gym",
        module="verigym.adapters.nemo_gym",
        hook="resources server: /seed_session, /verify and tools",
        no_reward="unscored=, which may be mask (mask_sample)",
        tried="0.4.0",
        wire="server and simple agent over HTTP, without Ray and its command",
    ),
    "openenv": Peer(
        package="openenv",
        module="verigym.adapters.openenv",
        hook="Environment, server and client, with tools and turns; OpenEnvEnvironment plays on a server of theirs",
        no_reward="reward None and error at the last step: leave the episode out",
        tried="0.10.0",
    ),
}
"""All supported trainers and evaluators, by the name of our adapter module. A new adapter is registered here."""
