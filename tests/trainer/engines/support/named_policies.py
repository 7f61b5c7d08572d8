"""Checks that trained completions come from the weights that they name (`Generated.policy_step`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from verigym.trainer.engines.vllm.remote import VllmServerEngine
from verigym.trainer.learner.learner import Learner
from verigym.trainer.rollout.collect import Group


def check_named_policies(monkeypatch: pytest.MonkeyPatch, max_staleness: int) -> list[int]:
    """Have every trained completion compared with the policy after the number of updates that it says.

    Returns:
        Updates since the sampling, one for each completion of one turn, filled while a run trains.
    """
    policies: dict[int, Any] = {}
    ages: list[int] = []
    publish, update = VllmServerEngine.publish, Learner.update

    def published(self: Any, step: int) -> None:
        policies[step] = copy.deepcopy(self.model).eval()
        publish(self, step)

    def updated(self: Any, step: int, groups: Sequence[Group]) -> Any:
        for group in groups:
            for done in group.generated:
                assert done.policy_step is not None and 0 <= step - done.policy_step <= max_staleness
                ids = torch.tensor([[*group.prompt_ids, *done.token_ids]])
                with torch.no_grad():
                    logits = policies[done.policy_step](ids).logits[0, len(group.prompt_ids) - 1 : -1].float()
                logps = logits.log_softmax(-1).gather(1, ids[0, len(group.prompt_ids) :, None])[:, 0]
                torch.testing.assert_close(logps, torch.tensor(done.logprobs), rtol=1e-4, atol=1e-4)
                ages.append(step - done.policy_step)
            assert group.off_policy == any(done.policy_step != step for done in group.generated)
        return update(self, step, groups)

    monkeypatch.setattr(VllmServerEngine, "publish", published)
    monkeypatch.setattr(Learner, "update", updated)
    return ages
