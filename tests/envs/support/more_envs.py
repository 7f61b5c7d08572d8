"""Further environments for the tests: faults that sit in one prompt, and a slow start."""

from __future__ import annotations

import time

from sample_envs import Answer, ExactEnvironment

from verigym.envs import Completion, Prompt, Score


class HangingGoldEnvironment(ExactEnvironment):
    """Hangs on every completion of a prompt whose gold is HANG, its own gold among them."""

    name = "hanging-gold"

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        if reference.answer == "HANG":
            time.sleep(600)
        return super().judge(prompt, reference, completion)


class SlowStartEnvironment(ExactEnvironment):
    """Needs three seconds before it can judge."""

    name = "slow-start"
    ready = False

    def prepare(self) -> None:
        time.sleep(3)
        type(self).ready = True

    def judge(self, prompt: Prompt, reference: Answer, completion: Completion) -> Score:
        if not self.ready:
            self.prepare()
        return super().judge(prompt, reference, completion)
