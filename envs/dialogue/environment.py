"""The `dialogue` environment: episodes with a user who is played by a model. Another environment judges them."""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, cast

from pydantic import BaseModel, JsonValue, ValidationError, create_model

from verigym.envs.composition.base import part_references, whole_references
from verigym.envs.composition.part_scores import scores_steps
from verigym.envs.contract.base import Environment, ExpectedVerdicts, Options, require_environment
from verigym.envs.contract.errors import UsageError, explain
from verigym.envs.contract.schema import (
    Completion,
    CompletionLike,
    Message,
    Prompt,
    Reference,
    Score,
    Turn,
    as_messages,
    canonical_json,
    sha256_hex,
)
from verigym.envs.contract.session import Reply, ToolSpec, opens_sessions
from verigym.envs.dialogue.conversation import as_text, opening, visible
from verigym.envs.dialogue.options import DialogueOptions, UserReference
from verigym.envs.dialogue.protocol import Line
from verigym.envs.dialogue.user import SimulatedUser, TextRefused, capped
from verigym.envs.grading.judging import grades_groups, is_hardened
from verigym.envs.judge.client import components
from verigym.envs.judge.endpoint import look
from verigym.envs.judge.environment import JudgeEnvironment
from verigym.envs.registry import load
from verigym.envs.tools.environment import ToolEnvironment, ToolSession
from verigym.envs.user_tmp import own_folder

USER, VERDICT = "user", "verdict"
"""Names of the two parts in a prompt's references."""
_FIELDS = tuple(UserReference.model_fields)


class DialogueEnvironment:
    """Conversations with a user played by a language model; another environment judges them.

    Args:
        verdict: the environment that judges, or its name. If it has tools (`ToolEnvironment`), turns with tool calls are
            answered by the tools, and all other turns by the user.
        options: fields of `DialogueOptions`.

    Raises:
        UsageError: an option is unknown or invalid, or the environment cannot judge a conversation.
    """

    name = "dialogue"
    version = "1"
    options_type: ClassVar[type[Options]] = DialogueOptions
    reference_type: type[BaseModel] = UserReference

    def __init__(self, verdict: Environment | str = "match", **options: Any) -> None:
        by_name = isinstance(verdict, str)
        try:
            self.options = DialogueOptions(verdict=verdict if by_name else getattr(verdict, "name", ""), **options)
        except ValidationError as error:
            raise UsageError(f"options of 'dialogue': {explain(error, DialogueOptions.model_fields)}") from None
        if not by_name and self.options.verdict_options:
            raise UsageError("options of 'dialogue': verdict_options are for a verdict by name; make the environment with them")
        made = load(cast(str, verdict), **self.options.verdict_options) if by_name else verdict
        self.inner = _fitting(require_environment(made, "dialogue: verdict"), self.options)
        digest = sha256_hex(canonical_json([self.options.model_dump(mode="json"), self.inner.grader]))[:8]
        self.grader = f"{self.name}@{self.version}+{digest}"
        inner_type = getattr(self.inner, "reference_type", None)
        if isinstance(inner_type, type) and issubclass(inner_type, BaseModel):
            # For descriptions of data sets, which name the fields of both.
            self.reference_type = _joined(inner_type)
        else:
            self.reference_type = UserReference
        self._replies = self.options.cache or self._own_file()

    def _own_file(self) -> str:
        """Return the path of a file for recorded replies, which is removed with the environment that was made first."""
        try:
            path = os.path.join(own_folder("dialogue"), f"{uuid.uuid4().hex}.sqlite")
        except OSError as error:
            raise UsageError(f"options of 'dialogue': cache: no file can be made ({error}); name one") from None
        weakref.finalize(self, _remove, path, os.getpid())
        return path

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "reference_type"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        inner_type = getattr(self.inner, "reference_type", None)
        if isinstance(inner_type, type) and issubclass(inner_type, BaseModel):
            self.reference_type = _joined(inner_type)

    def __repr__(self) -> str:
        return f"<{self.grader}>"

    @property
    def hardened(self) -> bool:
        """Whether the judging environment is."""
        return is_hardened(self.inner)

    @property
    def scores_steps(self) -> bool:
        """Whether the judging environment scores steps."""
        return scores_steps(self.inner)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Floor and maximum of the judging environment."""
        return self.inner.reward_range

    @property
    def expected_verdicts(self) -> ExpectedVerdicts:
        """Those of the judging environment."""
        return self.inner.expected_verdicts

    def prompt(
        self,
        text: str | Sequence[Message | Mapping[str, Any]],
        /,
        *,
        metadata: Mapping[str, Any] | None = None,
        **reference: Any,
    ) -> Prompt:
        """Return a task for a conversation.

        `text` holds the conversation up to the user's first message. `reference` holds `wants`, `knows` and `manner`, which
        describe the user (see `UserReference`), and the fields of the judging environment's reference.

        Raises:
            UsageError: a field is missing, unknown or of the wrong type, or the last message is not the user's.
        """
        messages = as_messages(text)
        if messages[-1].role != "user":
            raise UsageError(
                f"'dialogue': the last message of a task is the user's first words, not of role {messages[-1].role!r}"
            )
        user = _user({name: value for name, value in reference.items() if name in _FIELDS})
        made = self.inner.prompt(messages, **{name: value for name, value in reference.items() if name not in _FIELDS})
        return self._whole(made, user, {**made.metadata, **(metadata or {})})

    def load_prompt(self, data: Mapping[str, Any]) -> Prompt:
        """Return the prompt whose JSON form is `data`.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        if data["environment"] != self.name:
            raise UsageError(f"{self.name!r} was given a prompt made for {data['environment']!r}")
        references = dict(data["references"])
        user = _user(references.pop(USER, {}))
        own = part_references(VERDICT, self.inner, references)
        made = self.inner.load_prompt({"messages": data["messages"], "environment": self.inner.name, "references": own})
        prompt = self._whole(made, user, data.get("metadata", {}))
        if data.get("key", prompt.key) != prompt.key:
            raise ValueError(f"key {data['key']!r} does not belong to this prompt, whose content hashes to {prompt.key!r}")
        return prompt

    def _whole(self, made: Prompt, user: UserReference, metadata: Mapping[str, Any]) -> Prompt:
        references = {USER: user, **whole_references(VERDICT, self.inner, made.references)}
        return Prompt(messages=made.messages, environment=self.name, references=references, metadata=metadata)

    def _judged(self, prompt: Prompt) -> Prompt:
        """Return the prompt as the judging environment made it."""
        if not isinstance(prompt, Prompt):
            raise TypeError(f"{self.name!r} scores prompts made with env.prompt(...), not {type(prompt).__name__}")
        if prompt.environment != self.name:
            raise UsageError(f"{self.name!r} was given a prompt made for {prompt.environment!r}")
        references = {name: value for name, value in prompt.references.items() if name != USER}
        return Prompt(
            messages=prompt.messages,
            environment=self.inner.name,
            references=part_references(VERDICT, self.inner, references),
            metadata=prompt.metadata,
        )

    def gold(self, prompt: Prompt) -> str | None:
        """Return the judging environment's gold, a single answer that scores the maximum without a conversation, or None."""
        return self.inner.gold(self._judged(prompt))

    def score(self, prompt: Prompt, completion: CompletionLike) -> Score:
        """Return the judging environment's score of an episode or a single text. No request goes to the user's model.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        inner, candidate = self._judged(prompt), Completion.of(completion)
        score = Score.of_episode(candidate, self.reward_range[0], hardened=self.hardened)
        if score is None:
            if self.options.judged == "conversation":
                candidate = Completion(text=as_text(prompt, candidate), finish_reason=candidate.finish_reason)
            score = self.inner.score(inner, candidate)
        return score.model_copy(update={"grader": self.grader})

    def check(self) -> None:
        """Check the judging environment, and check that the user's endpoint answers, accepts the API key and has the model."""
        self.inner.check()
        look(self.options)

    def prepare(self) -> None:
        """Load what the judging environment needs."""
        if callable(prepare := getattr(self.inner, "prepare", None)):
            prepare()

    def examples(self) -> Sequence[Prompt]:
        """Return sample tasks, for the verdict by `match`."""
        if self.inner.name != "match":
            return ()
        return (
            self.prompt(
                "Hello, I need train tickets for my family. What will they cost?",
                wants="The user wants to know what the tickets cost together, as one number of euros.",
                knows=("The user travels with two adults and three children.", "An adult pays 30 euros, a child 12 euros."),
                kind="numeric",
                answer=96,
            ),
            self.prompt(
                "Can you tell me which day my parcel comes?",
                wants="The user wants to know the weekday on which the parcel comes.",
                knows=("The parcel was sent on a Tuesday.", "It takes three days."),
                kind="normalised",
                answer="Friday",
            ),
        )

    def open(self, prompt: Prompt, seed: str) -> DialogueSession:
        """Return the session of a new episode on `prompt`.

        Raises:
            UsageError: the prompt was made by another environment.
        """
        inner, user = self._judged(prompt), prompt.references[USER]
        assert isinstance(user, UserReference)
        options = self.options.model_copy(update={"cache": self._replies})
        tools = self.inner.open(inner, seed) if isinstance(self.inner, ToolEnvironment) else None
        return DialogueSession(SimulatedUser(options, user, f"{prompt.key}/{seed}"), opening(prompt), options, tools)


class DialogueSession:
    """One conversation."""

    def __init__(self, user: SimulatedUser, lines: Sequence[Line], options: DialogueOptions, tools: ToolSession | None) -> None:
        self._user, self._lines, self._options, self._tools = user, list(lines), options, tools
        self._messages = 0
        self._ended = ""
        self._closed = False

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that the model may call."""
        return self._tools.tools if self._tools is not None else ()

    def read(self, text: str) -> Turn:
        """Return the model's `text` as a turn, with the tool calls in it if the judging environment has tools."""
        return self._tools.read(text) if self._tools is not None else Turn(role="assistant", text=text)

    def respond(self, turn: Turn) -> Reply:
        """Return the reply to `turn`: from the tools if the turn calls any, else from the user, who may end the conversation.

        Raises:
            EnvironmentFailure: a tool or the endpoint failed.
            UsageError: the session is closed, or the conversation is over.
        """
        if self._closed or self._ended:
            raise UsageError("the session is closed: each episode opens its own, env.open(prompt, seed)")
        if self._tools is not None and turn.calls:
            return self._tools.respond(turn)
        self._lines.append(Line("assistant", capped(visible(turn.text), self._options.max_chars)))
        if self._messages == self._options.most_messages:
            return self._end("messages")
        try:
            said = self._user.reply(self._lines)
        except TextRefused:
            return self._end("refused")
        if said.ended:
            return self._end("user")
        self._messages += 1
        self._lines.append(Line("user", said.message))
        return Reply(messages=(Message(role="user", content=said.message),))

    def _end(self, why: str) -> Reply:
        self._ended = why
        return Reply(done=True)

    def close(self) -> Mapping[str, JsonValue]:
        """End the conversation. Return how it ended, how many messages the user wrote, and the requests and tokens they took.

        The cost in dollars is included if the options state prices, and the tools' outcome if the judging environment has
        tools.
        """
        self._closed = True
        outcome = dict(self._tools.close()) if self._tools is not None else {}
        cost = components(self._user.spent, self._options)
        outcome[USER] = {"ended": self._ended or None, "messages": self._messages, **cost}
        return outcome


def _fitting(inner: Environment, options: DialogueOptions) -> Environment:
    """Return the judging environment.

    Raises:
        UsageError: it compares completions, has episodes of another kind, or cannot judge what it is to.
    """
    if grades_groups(inner):
        raise UsageError(
            f"'dialogue': {inner.name!r} compares the completions of a prompt; conversations are judged one by one"
        )
    if opens_sessions(inner) and not isinstance(inner, ToolEnvironment):
        raise UsageError(f"'dialogue': {inner.name!r} has episodes of its own, and a user would speak between them")
    if options.judged == "conversation" and not isinstance(inner, JudgeEnvironment):
        raise UsageError(
            f"options of 'dialogue': judged='conversation' is for the verdict by judge; {inner.name!r} would take what the "
            "user says for the assistant's answer"
        )
    return inner


def _user(fields: Mapping[str, Any]) -> UserReference:
    try:
        return UserReference(**fields)
    except ValidationError as error:
        raise UsageError(f"reference of 'dialogue': {explain(error, UserReference.model_fields)}") from None


def _joined(inner: type[BaseModel]) -> type[BaseModel]:
    """Return a model with the fields of the user and of the judging environment's reference."""
    fields: dict[str, Any] = {}
    for model in (inner, UserReference):
        fields.update({name: (info.annotation, info) for name, info in model.model_fields.items()})
    return create_model("DialogueReference", __base__=Reference, **fields)


def _remove(path: str, pid: int) -> None:
    if os.getpid() == pid:
        for one in (path, f"{path}-wal", f"{path}-shm"):
            with suppress(OSError):
                os.remove(one)
