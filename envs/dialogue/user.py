"""The simulated user of one episode. Each message comes from a chat endpoint; a replay gets the recorded messages."""

from __future__ import annotations

import time
from collections.abc import Sequence

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import sha256_hex
from verigym.envs.dialogue.options import DialogueOptions, UserReference
from verigym.envs.dialogue.protocol import INSTRUCTIONS, Line, UserReply, request
from verigym.envs.judge.client import ask
from verigym.envs.judge.endpoint import RefusedRequest, Spent
from verigym.envs.judge.markers import unmarked

_CONTROL = "I see. Could you tell me more?"


class TextRefused(Exception):
    """The endpoint gives no readable reply to the assistant's text, but does reply if a harmless text stands in place of it."""


class SimulatedUser:
    """A user played by a model.

    Args:
        options: the options, which name the endpoint and the file of recorded replies.
        reference: what the user wants and knows, and how the user writes.
        seed: name of the episode. The `seed` of each request is derived from this name and the number of the message.
    """

    def __init__(self, options: DialogueOptions, reference: UserReference, seed: str) -> None:
        self._options, self._reference, self._seed = options, reference, seed
        self.spent = Spent()

    def reply(self, lines: Sequence[Line]) -> UserReply:
        """Return the user's next message, safe for any chat template.

        Raises:
            TextRefused: there is no readable reply, and the assistant's text is the cause.
            EnvironmentFailure: the endpoint fails.
        """
        deadline = time.monotonic() + self._options.total_s
        try:
            said = self._ask(lines, deadline)
        except RefusedRequest as refused:
            self._ask_about_another_text(lines, deadline, refused)
            raise TextRefused(str(refused)) from None
        except EnvironmentFailure as failure:
            if failure.kind != "protocol":
                raise
            try:
                self._ask_about_another_text(lines, deadline, failure)
            except EnvironmentFailure:
                raise failure from None
            raise TextRefused(failure.message) from None
        return said._replace(message=capped(unmarked(said.message), self._options.max_chars))

    def _ask(self, lines: Sequence[Line], deadline: float) -> UserReply:
        text, form = request(self._reference, lines)
        number = int(sha256_hex(f"{self._seed}/{len(lines)}")[:8], 16) >> 1
        seeded = self._options.model_copy(update={"extra_body": {"seed": number, **self._options.extra_body}})
        said, spent = ask(seeded, INSTRUCTIONS, text, form, deadline)
        self.spent = self.spent + spent
        return said

    def _ask_about_another_text(self, lines: Sequence[Line], deadline: float, refused: Exception) -> None:
        """Ask with a plain text in the place of all that the assistant wrote.

        Raises:
            EnvironmentFailure: that is refused too, so that the settings are to blame.
        """
        control = [line if line.speaker == "user" else Line("assistant", _CONTROL) for line in lines]
        try:
            self._ask(control, deadline)
        except RefusedRequest:
            raise EnvironmentFailure(
                "unavailable", f"user simulator {self._options.model!r} at {self._options.base_url}: {refused}"
            ) from None


def capped(text: str, most: int) -> str:
    """Return `text`, without its middle if it is longer than `most` characters.

    About `most` characters then remain, and a note between them says how many were left out.
    """
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
