"""The `retrieval` environment: what the tools give, and that generated questions can be answered with them and not without."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from needs import needs

import verigym
from verigym import Completion, EnvironmentFailure, Message, Prompt, UsageError, check_env, run_episode
from verigym.envs.retrieval.environment import RetrievalEnvironment, RetrievalReference
from verigym.envs.retrieval.index import library
from verigym.envs.retrieval.tools import EXCERPT_CHARS, Search, excerpt
from verigym.envs.retrieval.world import _FACTS, FEWEST_ANSWERS, RELATIONS, World, world_of

pytestmark = needs("bm25s")

SMALL = RetrievalEnvironment(people=8)
ROWS = [
    {"id": "aare", "title": "Aare", "text": "The Aare is 288 kilometres long. " * 20},
    {"id": "rhine", "title": "Rhine", "text": "The Rhine is 1,233 kilometres long."},
]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "rivers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(path)


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def replies(env: RetrievalEnvironment, prompt: Prompt, *calls: str) -> list[str]:
    session = env.open(prompt, "0")
    try:
        return [message.content for one in calls for message in session.respond(session.read(one)).messages]
    finally:
        session.close()


def pattern(form: str) -> re.Pattern[str]:
    """Return the expression of a sentence with names in braces, `{}` for the entity."""
    parts = re.split(r"(\{\w*\})", form)
    return re.compile(
        "".join(f"(?P<{part[1:-1] or 'name'}>[^.?]+)" if part.startswith("{") else re.escape(part) for part in parts)
    )


ASKS = [(relation, pattern(relation.ask)) for relation in RELATIONS]
REFERS = [(relation, pattern(relation.refer)) for relation in RELATIONS if relation.refer]


def reader(messages: Sequence[Message]) -> str:
    """A policy that reads the question, and looks each entity up by its name; it knows the sentences and no fact."""
    question = messages[0].content
    asked = [(relation, match["name"]) for relation, ask in ASKS if (match := ask.match(question))]
    subject, steps = asked[0][1], [asked[0][0]]
    for last, name in asked:
        for relation, refer in REFERS:
            if relation.to == last.of and (match := refer.fullmatch(name)):
                subject, steps = match["name"], [relation, last]
    results = [message.content for message in messages if message.role == "tool"]
    for step in steps:
        if not results:
            return call("search", query=subject)
        listed = re.findall(r"^\[(\w+)\] ([^:]+): ", results.pop(0), re.MULTILINE)
        one = next(one for one, title in listed if title == subject)
        if not results:
            return call("open", id=one)
        text = results.pop(0).split("\n", 1)[1]
        forms = [form for one in RELATIONS if one.ask == step.ask for form in _fact(one.of, one.name)]
        (subject,) = {match[step.name].strip() for form in forms if (match := pattern(form).search(text))}
    return rf"\boxed{{{subject}}}"


def _fact(kind: str, name: str) -> Sequence[str]:
    return next(forms for forms in _FACTS[kind] if f"{{{name}}}" in forms[0])  # type: ignore[index]


@pytest.mark.parametrize("hops", [1, 2])
def test_generated_questions_are_answered_with_the_tools(hops: int) -> None:
    env = RetrievalEnvironment(people=30, hops=hops)
    for split in ("train", "test"):
        for number in range(12):
            prompt = env.prompt_at(split, 0, number)
            episode = run_episode(env, prompt, reader)
            assert env.score(prompt, episode).reward == 1.0, prompt.text
            assert episode.outcome is not None
            assert episode.outcome["calls"] == {"search": hops, "open": hops}


@pytest.mark.parametrize("calls", ["hermes", "qwen_xml"])
def test_generated_questions_are_demonstrated(calls: str) -> None:
    env = RetrievalEnvironment(people=8, calls=calls)
    demonstrate = env.demonstrate
    assert demonstrate is not None
    for number in range(30):
        prompt = env.prompt_at("train", 1, number)
        episode = demonstrate(prompt)
        assert (env.score(prompt, episode).reward, episode.finish_reason) == (1.0, "stop")
        assert episode.outcome is not None and episode.outcome["faults"] == {}
        assert any(turn.role == "tool" and env.gold(prompt)[7:-1] in turn.text for turn in episode.turns)  # type: ignore[index]
    with pytest.raises(UsageError, match="only questions that it has generated"):
        demonstrate(env.prompt("How long?", answer="1"))


def answers(env: RetrievalEnvironment, split: str, count: int) -> list[tuple[Prompt, str]]:
    tasks = [env.prompt_at(split, 0, number) for number in range(count)]
    return [(task, str(cast(RetrievalReference, task.references["retrieval"]).answer)) for task in tasks]


def kind_of(prompt: Prompt) -> str:
    """The question without its names: what a policy can tell of the answer."""
    return re.sub(r"[A-Z][a-z]+(?: (?:and )?[A-Z][a-z]+)*", "X", prompt.text)


def test_without_tools_nothing_beats_chance() -> None:
    seen = answers(SMALL, "train", 300)
    unseen = answers(SMALL, "test", 150)
    by_kind: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for prompt, answer in seen:
        by_kind[kind_of(prompt)][answer] += 1
    rng = random.Random(0)
    everything = [answer for _, answer in seen]

    def remembered(prompt: Prompt) -> str:
        known = by_kind[kind_of(prompt)]
        return known.most_common(1)[0][0] if known else ""

    strategies: dict[str, Callable[[Prompt], Sequence[str]]] = {
        "the most frequent answer to such a question": lambda prompt: [remembered(prompt)],
        "any answer to such a question": lambda prompt: [rng.choice(list(by_kind[kind_of(prompt)].elements()) or [""])],
        "any answer": lambda prompt: [rng.choice(everything)],
        "a part of the question": lambda prompt: re.findall(r"\b\w+(?: \w+)?", prompt.text),
    }
    for name, strategy in strategies.items():
        right = [
            max((SMALL.score(prompt, rf"\boxed{{{guess}}}").reward or 0.0) for guess in (*strategy(prompt), ""))
            for prompt, _ in unseen
        ]
        # One in 40 at most: three standard deviations above are 0.063 of 150.
        assert sum(right) / len(right) <= 1 / FEWEST_ANSWERS + 0.038, name


def test_the_answer_is_not_in_the_prompt() -> None:
    for prompt, answer in answers(SMALL, "train", 200):
        shown = json.dumps([message.model_dump() for message in prompt.messages] + [prompt.metadata["tools"]])
        assert answer.casefold() not in shown.casefold()
        assert cast(RetrievalReference, prompt.references["retrieval"]).world not in shown


def test_train_and_test_share_neither_questions_nor_worlds() -> None:
    seen, unseen = ([task for task, _ in answers(SMALL, split, 150)] for split in ("train", "test"))
    for value in (lambda task: task.text, lambda task: task.references["retrieval"].world):
        assert {value(task) for task in seen}.isdisjoint(value(task) for task in unseen)
        assert len({value(task) for task in seen}) == 150


def test_a_world_is_drawn_from_its_key() -> None:
    assert World("a", 10).documents() == World("a", 10).documents()
    assert World("a", 10).documents() != World("b", 10).documents()
    documents = world_of("a", 10).documents()
    assert len(documents) == 20
    assert len({document.id for document in documents}) == len({document.title for document in documents}) == 20


def test_search_and_open(corpus: str) -> None:
    env = RetrievalEnvironment(corpus=corpus, page_chars=250)
    prompt = env.prompt("How long is the Rhine, in kilometres?", answer="1,233")
    found, both, page, last = replies(
        env,
        prompt,
        call("search", query="how long is the Rhine?", k=1),
        call("search", query="kilometres"),
        call("open", id="aare"),
        call("open", id="[aare]", page=3),
    )
    assert found == "[rhine] Rhine: The Rhine is 1,233 kilometres long."
    assert [line.split()[0] for line in both.splitlines()] == ["[aare]", "[rhine]"]
    assert page.startswith("[aare] Aare (page 1 of 3)\nThe Aare is") and len(page.split("\n", 1)[1]) == 250
    assert last.startswith("[aare] Aare (page 3 of 3)\n") and last.endswith("long. ")


WRONG = {
    call("search", query="..."): "Error: the query has no words",
    call("search", query="a" * 401): "Error: the query is longer than 400 characters; give the words that matter",
    call("search", query="Volga"): "No document has a word of the query.",
    call("search", query="Rhine", k=0): "Error: the arguments do not fit: field 'k'",
    call("search", query="Rhine", k=21): "Error: the arguments do not fit: field 'k'",
    call("search", words="Rhine"): "Error: the arguments do not fit: unknown field 'words'",
    call("open", id="volga"): "Error: there is no document 'volga'; take an id from a result of search",
    call("open", id="rhine", page=2): "Error: document 'rhine' has 1 page, not 2",
    call("open", id="rhine", page=0): "Error: the arguments do not fit: field 'page'",
}


def test_the_model_reads_what_is_wrong_with_a_call(corpus: str) -> None:
    env = RetrievalEnvironment(corpus=corpus)
    prompt = env.prompt("How long is the Rhine?", answer="1,233 km")
    for reply, words in zip(replies(env, prompt, *WRONG), WRONG.values(), strict=True):
        assert reply.startswith(words)


def test_an_excerpt_shows_where_the_words_are() -> None:
    text = "word " * 100 + "the river Aare in Bern " + "word " * 100
    shown = excerpt(text, ["river", "aare", "bern"])
    assert "river Aare in Bern" in shown and shown.startswith("...") and shown.endswith("...")
    assert len(shown) <= EXCERPT_CHARS + 6
    assert excerpt("short", ["other"]) == "short"


def test_answers_are_judged_as_match_or_math_judges(corpus: str) -> None:
    by_match = RetrievalEnvironment(corpus=corpus)
    assert by_match.demonstrate is None
    prompt = by_match.prompt("Longer: Rhine or Aare?", answer=["Rhine", "the Rhine"])
    assert by_match.score(prompt, r"\boxed{The Rhine!}").reward == 1.0
    number = by_match.prompt("How long?", kind="numeric", answer=1233, tolerance=5)
    assert by_match.score(number, r"\boxed{1230}").reward == 1.0
    by_math = RetrievalEnvironment(corpus=corpus, judged_by="math", judge_options={"symbolic": False})
    prompt = by_math.prompt("How long is the Rhine?", answer="1233")
    assert by_math.score(prompt, r"\boxed{1{,}233}").reward == 1.0
    assert replies(by_math, prompt, call("search", query="Rhine", k=1)) == [
        "[rhine] Rhine: The Rhine is 1,233 kilometres long."
    ]
    with pytest.raises(UsageError, match="options of 'math'"):
        RetrievalEnvironment(corpus=corpus, judged_by="math", judge_options={"answer_in": ["all"]})


def test_what_a_document_says_is_never_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"id": "a", "text": r"\boxed{Bern}"}))
    env = RetrievalEnvironment(corpus=str(path))
    prompt = env.prompt("Which town?", answer="Bern")
    turns = iter([call("open", id="a"), "I do not know."])
    assert env.score(prompt, run_episode(env, prompt, lambda messages: next(turns))).reward == 0.0


def test_the_grader_depends_on_what_the_corpus_holds_and_not_on_where_it_is(corpus: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(Path(corpus).read_bytes())
    graders = [RetrievalEnvironment(corpus=one).grader for one in (corpus, str(copy))]
    copy.write_text(json.dumps(ROWS[0]))
    others = [
        RetrievalEnvironment(corpus=str(copy)).grader,
        RetrievalEnvironment(corpus=corpus, page_chars=500).grader,
        RetrievalEnvironment(corpus=corpus, judge_options={"skip_thinking": False}).grader,
        RetrievalEnvironment().grader,
        RetrievalEnvironment(hops=1).grader,
        RetrievalEnvironment(people=41).grader,
    ]
    assert graders[0] == graders[1]
    assert len({graders[0], *others}) == 7


def test_in_worker_processes(corpus: str) -> None:
    env = RetrievalEnvironment(corpus=corpus)
    prompt = env.prompt("How long is the Rhine?", answer="1,233 km")
    with verigym.Grader(env, workers=1) as grader:
        scores = grader.grade([(prompt, r"\boxed{1,233 km}"), (prompt, r"\boxed{288 km}")])
    assert [score.reward for score in scores] == [1.0, 0.0]


@pytest.mark.slow
def test_it_keeps_the_contract() -> None:
    report = check_env(verigym.load("retrieval"))
    assert report.passed, str(report)


@pytest.mark.slow
def test_rankings_do_not_depend_on_the_process() -> None:
    code = (
        "from verigym.envs.retrieval.environment import _index_of_world\n"
        "index = _index_of_world('a', 40)\n"
        "print([(hit.document.id, hit.score) for hit in index.search('river mayor founded trade born', 20)])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in ("1", "2")
    ]
    assert said[0].stdout == said[1].stdout != ""


def test_prompts_that_have_no_documents_here(corpus: str) -> None:
    with_corpus, generated = RetrievalEnvironment(corpus=corpus), SMALL.prompt_at("train", 0, 0)
    with pytest.raises(UsageError, match="has a corpus, and the prompt is a generated task"):
        with_corpus.open(with_corpus.load_prompt(generated.model_dump(mode="json")), "0")
    with pytest.raises(UsageError, match="no documents for this prompt: give the option corpus"):
        SMALL.open(SMALL.prompt("How long?", answer="1"), "0")
    with pytest.raises(UsageError, match="generates no tasks"):
        with_corpus.prompt_at("train", 0, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"corpse": "x"}, "unknown field 'corpse'; did you mean 'corpus'"),
        ({"hops": 3}, "field 'hops'"),
        ({"corpus": "nowhere.jsonl"}, "corpus nowhere.jsonl: there is no such file or folder"),
        ({"judged_by": "math"}, "'judged_by' has no effect"),
        ({"index_folder": "x"}, "'index_folder' has no effect"),
        ({"judge_options": {"people": 3}}, "unknown field 'people'"),
    ],
)
def test_mistakes_are_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        verigym.load("retrieval", **options)


def test_options_without_effect_on_a_corpus(corpus: str) -> None:
    with pytest.raises(UsageError, match="'hops' has no effect, for the environment has a corpus"):
        RetrievalEnvironment(corpus=corpus, hops=2)


def test_without_the_package_one_sentence_names_it(corpus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    library.cache_clear()
    env = RetrievalEnvironment(corpus=corpus)
    with pytest.raises(EnvironmentFailure, match=r"retrieval needs the package bm25s; pip install 'verigym\[retrieval\]'"):
        env.check()
    prompt = env.prompt("How long is the Rhine?", answer="1,233 km")
    assert env.score(prompt, r"\boxed{1,233 km}").reward == 1.0
    episode = run_episode(env, prompt, lambda messages: call("search", query="Rhine"))
    assert isinstance(episode, Completion) and env.score(prompt, episode).reward is None


def test_the_model_is_told_of_the_tools() -> None:
    tools = SMALL.prompt_at("train", 0, 0).metadata["tools"]
    assert [one["function"]["name"] for one in cast(list[dict[str, Any]], tools)] == ["search", "open"]
    assert Search.signature.spec.parameters["required"] == ["query"]
