"""The `retrieval` environment: questions to answer by searching and reading documents.

It is a `ToolEnvironment`: the answer is judged as `match` or `math` judges one turn, and the tools are `search` and `open`.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, cast

from pydantic import Field, JsonValue, ValidationError

from verigym.envs.contract.base import Environment, Options
from verigym.envs.contract.errors import UsageError, explain
from verigym.envs.contract.generated import TRIES, GeneratedTasks, Made
from verigym.envs.contract.schema import Completion, Prompt, Reference
from verigym.envs.match.environment import MatchEnvironment, MatchOptions, MatchReference
from verigym.envs.math.environment import MathEnvironment, MathReference
from verigym.envs.retrieval.corpus import CorpusFiles, DocumentList
from verigym.envs.retrieval.index import Index, check_corpus
from verigym.envs.retrieval.tools import CorpusTool, FileSource, Read, Search, Source
from verigym.envs.retrieval.world import VERSION as WORLDS
from verigym.envs.retrieval.world import world_of
from verigym.envs.tools.environment import ToolEnvironment, ToolSession
from verigym.envs.tools.episode import run_episode

HOW_TO_ANSWER = r"Look it up with the tools, and give the answer in \boxed{}."


class RetrievalReference(MatchReference):
    """The answer of a question, as `match` has it."""

    kind: str = "normalised"
    """The way of comparing, by its name in `match`."""
    world: str = ""
    """Key of the generated world (a set of documents) that the question is about; empty if the corpus is the user's."""


class RetrievalOptions(Options):
    """Where the documents are, and who judges."""

    corpus: str = ""
    """A JSONL file, or a folder of JSONL files. Each line has `id`, `title` and `text`. If empty, documents and questions are
    generated."""
    judged_by: Literal["match", "math"] = "match"
    """The environment that judges the answer."""
    judge_options: Mapping[str, JsonValue] = {}
    """Options of that environment."""
    hops: Literal[1, 2] | None = None
    """For generated questions: number of documents that lead to an answer, 1 or 2; None for a mixture of both."""
    people: int = Field(40, ge=4, le=2000)
    """For generated documents: number of people that each task's documents are about. There are half as many towns and half as
    many companies."""
    page_chars: int = Field(3000, ge=200, le=100_000)
    """Characters of a page, as `open` gives them."""
    index_folder: str = ""
    """Folder in which indexes of large corpora are stored; empty for this user's folder in the temporary directory."""
    max_reply_chars: int = Field(4096, ge=64)
    """A longer result of a tool is cut in the middle."""
    max_calls: int = Field(8, ge=1)
    """Calls that one turn may make."""
    calls: Literal["hermes", "qwen_xml"] = "hermes"
    """The format in which the model writes calls."""


class Answers(MatchEnvironment):
    """Judges answers to questions on a corpus of the user's."""

    name = "retrieval"
    reference_type = RetrievalReference


class QuestionOptions(MatchOptions):
    """Options of generated questions."""

    hops: Literal[1, 2] | None = None
    """Documents that an answer needs; None for both kinds."""
    people: int = 40
    """People in each task's world."""
    worlds: str = WORLDS
    """Version of the generator."""


class Questions(GeneratedTasks[MatchReference, MatchOptions], Answers):
    """Generates questions, and judges their answers."""

    options_type = QuestionOptions

    def stream(self) -> str:
        """Return the key of these draws."""
        options = cast(QuestionOptions, self.options)
        return f"{self.name}/{options.worlds}/{options.people}/{options.hops}"

    def examples(self) -> Sequence[Prompt]:
        """Return none: tasks are generated."""
        return ()

    def make(self, rng: random.Random) -> Made:
        """Draw a world and a question on it."""
        options = cast(QuestionOptions, self.options)
        key, hops = f"{rng.getrandbits(64):016x}", int(options.hops or rng.choice((1, 2)))
        world = world_of(key, options.people)
        for _ in range(TRIES):
            if (made := world.question(rng, hops)) is not None:
                return Made(f"{made.text} {HOW_TO_ANSWER}", made.answer, facts={"world": key})
        raise UsageError(f"'retrieval': a world of {options.people} people has no question of {hops} steps; take more people")


class WorldSource:
    """The documents of a generated world."""

    identity = f"generated {WORLDS}"

    def __init__(self, key: str, people: int) -> None:
        self._key, self._people = key, people

    def index(self) -> Index:
        """Return the index of this world.

        Recently used indexes are cached, because all episodes of a prompt use the same one.
        """
        return _index_of_world(self._key, self._people)


@functools.lru_cache(maxsize=64)
def _index_of_world(key: str, people: int) -> Index:
    return Index.of(DocumentList(world_of(key, people).documents()))


class RetrievalEnvironment(ToolEnvironment):
    """Questions that are answered by searching documents, either of a given corpus or generated ones.

    Raises:
        UsageError: an option is unknown, invalid or without effect, or the corpus is missing or has a bad row.
    """

    options_type: ClassVar[type[Options]] = RetrievalOptions
    reference_type: type[Reference] = RetrievalReference

    def __init__(self, **options: Any) -> None:
        try:
            given = RetrievalOptions(**options)
        except ValidationError as error:
            raise UsageError(f"options of 'retrieval': {explain(error, RetrievalOptions.model_fields)}") from None
        self._generated = not given.corpus
        source: Source
        judge: object = Answers(**given.judge_options) if given.judged_by == "match" else MathEnvironment(**given.judge_options)
        if self._generated:
            _refuse_unused(given, "generates documents and questions, judged by match", "judged_by", "index_folder")
            source = WorldSource("check", given.people)
            judge = Questions(**given.judge_options, hops=given.hops, people=given.people)
        else:
            _refuse_unused(given, "has a corpus", "hops", "people")
            files = CorpusFiles.at(given.corpus)
            check_corpus(files, given.index_folder)
            source = FileSource(files, given.index_folder)
        self._people = given.people
        tools = [CorpusTool(kind, source, given.page_chars) for kind in (Search, Read)]
        super().__init__(
            cast(Environment, judge),
            tools,
            name="retrieval",
            max_reply_chars=given.max_reply_chars,
            max_calls=given.max_calls,
            calls=given.calls,
        )
        if given.judged_by == "math":
            self.reference_type = MathReference

    @property
    def demonstrate(self) -> Callable[..., Completion] | None:
        """Return a function that makes a demonstration episode, or None for a given corpus.

        A demonstration calls the tools to look up the documents that lead to the answer, and then answers. A model can be
        trained on demonstrations before RL (a supervised cold start).
        """
        return self._demonstrated if self._generated else None

    def _demonstrated(self, prompt: Prompt, seed: str = "0") -> Completion:
        reference = self._inner(prompt).references[self.inner.name]
        assert isinstance(reference, RetrievalReference)
        asked = world_of(reference.world, self._people).find(prompt.messages[-1].content.removesuffix(f" {HOW_TO_ANSWER}"))
        if asked is None:
            raise UsageError("'retrieval': only questions that it has generated can be demonstrated")
        turns = []
        for title, one in asked.path:
            turns += [_CALLS[self.calls.identity]("search", "query", title), _CALLS[self.calls.identity]("open", "id", one)]
        texts = iter([*turns, rf"\boxed{{{asked.answer}}}"])
        return run_episode(self, prompt, lambda messages: next(texts), seed=seed, max_turns=len(turns) + 1)

    def open(self, prompt: Prompt, seed: str) -> ToolSession:
        """Return the session of a new episode on `prompt`.

        Raises:
            UsageError: the prompt was made by another environment, or names documents that this environment does not have.
        """
        reference = self._inner(prompt).references[self.inner.name]
        world = reference.world if isinstance(reference, RetrievalReference) else ""
        if not self._generated:
            if world:
                raise UsageError("'retrieval' has a corpus, and the prompt is a generated task; leave out the option corpus")
            return super().open(prompt, seed)
        if not world:
            raise UsageError(
                "'retrieval' has no documents for this prompt: give the option corpus, or take the tasks it generates"
            )
        source = WorldSource(world, self._people)
        tools = {name: tool.over(source) for name, tool in self.tools.items() if isinstance(tool, CorpusTool)}
        return ToolSession(tools, self.options, seed, self.calls)


_CALLS: Mapping[str, Callable[[str, str, str], str]] = {
    "hermes": lambda tool, name, value: (
        f"<tool_call>\n{json.dumps({'name': tool, 'arguments': {name: value}}, ensure_ascii=False)}\n</tool_call>"
    ),
    "qwen_xml": lambda tool, name, value: (
        f"<tool_call>\n<function={tool}>\n<parameter={name}>\n{value}\n</parameter>\n</function>\n</tool_call>"
    ),
}
"""How a call with one argument is written, by format."""


def _refuse_unused(given: RetrievalOptions, what: str, *names: str) -> None:
    for name in names:
        if name in given.model_fields_set and getattr(given, name) != RetrievalOptions.model_fields[name].default:
            raise UsageError(f"options of 'retrieval': {name!r} has no effect, for the environment {what}; leave it out")
