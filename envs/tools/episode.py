"""`run_episode`: a policy and a session take turns until the model answers or a limit ends the episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, FinishReason, Message, Prompt, ScoreError
from verigym.envs.contract.session import Interactive, Session, opens_sessions
from verigym.envs.contract.transcript import Transcript

Policy = Callable[[Sequence[Message]], str]
"""Gets the messages so far and returns the assistant's next text."""


def run_episode(env: Interactive, prompt: Prompt, policy: Policy, *, seed: str = "0", max_turns: int = 8) -> Completion:
    """Run one episode and return it as a completion, to be scored by `env.score(prompt, completion)`.

    Args:
        env: an interactive environment.
        prompt: a task of `env`.
        policy: function from the messages so far to the assistant's next text. Its exceptions are not caught.
        seed: any text that names the episode; the session's random numbers are derived from it.
        max_turns: maximum number of turns of the assistant. An episode that is not over by then has the finish reason `turns`.

    Returns:
        The episode. If our side failed, its `failure` is set, and it gets no reward when it is scored.

    Raises:
        UsageError: the environment has no episodes, or the prompt is another environment's.
        TypeError: the policy did not return a text.
    """
    if not opens_sessions(env):
        raise UsageError(f"{env!r} has no episodes (no `open`): give it tools, ToolEnvironment(env, tools=[...])")
    if max_turns < 1:
        raise UsageError(f"max_turns is {max_turns}; expected at least 1")
    transcript = Transcript(prompt)
    reason: FinishReason = "turns"
    failure: ScoreError | None = None
    outcome = None
    session: Session | None = None
    try:
        try:
            session = env.open(prompt, seed)
            for _ in range(max_turns):
                turn = session.read(_text(policy(transcript.messages)))
                transcript.add(turn)
                reply = session.respond(turn)
                transcript.answer(reply)
                if reply.done:
                    reason = "stop"
                    break
        finally:
            outcome = session.close() if session is not None else None
    except EnvironmentFailure as error:
        failure, reason = error.score().error, "abort"
    return transcript.completion(reason, outcome, failure)


def _text(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"the policy returned {type(text).__name__}; expected the assistant's next text")
    return text
