"""Settings of episodes: completions of several turns. An environment that opens sessions answers each turn."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from verigym.trainer.config.frozen import Frozen

TurnOrder = Literal["lockstep", "free"]


class EpisodeFields(Frozen):
    """Settings that limit an episode. In addition, max_new_tokens limits the sampled tokens of all its turns together."""

    max_turns: int = Field(default=8, ge=1)
    """In episodes: most turns of the assistant."""
    max_turn_tokens: int | None = Field(default=None, ge=1)
    """In episodes: most tokens that are sampled in one turn; when left out, max_new_tokens alone counts."""
    max_context_tokens: int | None = Field(default=None, ge=1)
    """In episodes: most tokens of prompt and all turns together, replies of tools included; the model's limit when left out."""
    turn_timeout_s: float = Field(default=30.0, gt=0)
    """In episodes: most seconds of wall time that the environment may take to answer one turn."""
    episode_order: TurnOrder = "lockstep"
    """In episodes: lockstep samples the next turns of all episodes together, so that a resumed run is bit-identical. free
    continues each episode as soon as its own reply has arrived, which saves time where tools are slow."""
    episode_cache_mb: int = Field(default=1024, ge=0)
    """In episodes, for engine native: most memory, in MiB, of the keys and values that are kept from turn to turn. Turns of
    episodes that do not fit are computed from the first token. 0 keeps none."""
