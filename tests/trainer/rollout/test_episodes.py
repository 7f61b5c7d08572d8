"""Episodes in a rollout: the tokens, what is masked, limits, failures, and one-turn completions beside them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from letters import LettersEnvironment
from qwen_like import THINKING_CHATML, qwen_like_tokenizer
from tool_users import BROKEN_CALL, CALL, ScriptedEngine, SumEnvironment, conversation_codec, sums_with_a_calculator

from verigym.envs import Prompt, Status, ToolEnvironment, UsageError, tool
from verigym.envs.contract.base import Environment
from verigym.envs.grading import Grader
from verigym.envs.sessions import Sessions
from verigym.trainer.credit.rows import Credit, has_signal, training_rows
from verigym.trainer.credit.turn_rewards import turn_advantages
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import Dropped, Group, collect
from verigym.trainer.rollout.episode_metrics import episode_metrics
from verigym.trainer.rollout.episodes import EpisodeLimits, Episodes
from verigym.trainer.rollout.group_json import dump_group, load_group
from verigym.trainer.tasks.mixture import Source

SUMS = sums_with_a_calculator()
Write = Callable[[str, tuple[object, ...]], str]


@pytest.fixture(scope="module")
def codec() -> Codec:
    return conversation_codec()


def task(label: str = "sums", environment: Any = SUMS, **reference: str) -> tuple[Source, Prompt]:
    prompt = environment.prompt("What is 37*41?", **(reference or {"answer": "1517"}))
    return Source(label, environment, 1.0, lambda index: prompt, ()), prompt


def call_then_answer(text: str, key: tuple[object, ...]) -> str:
    return "1517" if "</tool_call>" in text else CALL


def roll(
    codec: Codec, write: Write, tasks: Sequence[tuple[Source, Prompt]], *, samples: int = 2, **limits: Any
) -> tuple[list[Group], ScriptedEngine]:
    engine = ScriptedEngine(codec, write)
    environments: dict[str, Environment] = {source.environment.name: source.environment for source, _ in tasks}
    give_up = limits.pop("give_up", lambda: False)
    allowed = EpisodeLimits(**{"max_turns": 4, "max_new_tokens": 120, **limits})
    interactive = {name: one for name, one in environments.items() if isinstance(one, ToolEnvironment)}
    with Grader(environments, workers=0) as grader, Sessions(interactive or {SUMS.name: SUMS}, workers=0) as sessions:
        by_label = {source.label: sessions for source, _ in tasks if isinstance(source.environment, ToolEnvironment)}
        groups = collect(
            engine,  # type: ignore[arg-type]
            codec,
            lambda source: grader,
            tasks,
            samples=samples,
            key=("test",),
            max_new_tokens=allowed.max_new_tokens,
            temperature=1.0,
            give_up=give_up,
            episodes=Episodes(codec, by_label, allowed) if by_label else None,
        )
    return groups, engine


def test_a_call_is_answered_and_the_last_turn_is_judged(codec: Codec) -> None:
    (found,), engine = roll(codec, call_then_answer, [task()])
    assert found.texts == ("1517", "1517") and [score.status for score in found.scores] == [Status.CORRECT] * 2
    for episode, done in zip(found.episodes, found.generated, strict=True):
        assert [turn.role for turn in episode.turns] == ["assistant", "tool", "assistant"]
        assert [call.name for call in episode.turns[0].calls] == ["calculator"] and episode.turns[1].text == "1517"
        assert episode.outcome == {"calls": {"calculator": 1}, "faults": {}} and episode.finish_reason == "stop"
        (first, second), mask = done.turns, done.loss_mask
        assert mask is not None and len(mask) == len(done.token_ids) == len(done.logprobs)
        written = [n for start, end in done.turns for n in range(start, end)]
        assert [n for n, own in enumerate(mask) if own] == written
        assert {done.logprobs[n] for n in written} == {-0.5} and {done.logprobs[n] for n in range(*(first[1], second[0]))} == {
            0.0
        }
        assert episode.token_ids == tuple(done.token_ids[n] for n in written) and done.length == len(written)
        assert codec.decode(done.token_ids[first[0] : first[1]]) == CALL
    tools = found.prompt.metadata["tools"]
    assert [one["function"]["name"] for one in tools] == ["calculator"]  # type: ignore[index, union-attr, call-overload]
    assert "calculator" in codec.tokenizer.decode(found.prompt_ids)


def test_every_turn_has_the_thought_that_its_prompt_has_opened() -> None:
    known = [CALL, "What is 37*41? 1517", "Multiply."] * 3
    opens = Codec(qwen_like_tokenizer(known, template=THINKING_CHATML))

    def write(text: str, key: tuple[object, ...]) -> str:
        return f"Multiply.\n</think>\n{call_then_answer(text, key)}"

    (found,), _ = roll(opens, write, [task()], samples=1)
    (episode,), (done,) = found.episodes, found.generated
    assert [turn.text for turn in episode.turns] == [
        f"<think>\nMultiply.\n</think>\n{CALL}",
        "1517",
        "<think>\nMultiply.\n</think>\n1517",
    ]
    assert found.texts == (episode.turns[-1].text,)
    assert [opens.decode(done.token_ids[start:end]) for start, end in done.turns] == [
        turn.text.removeprefix("<think>\n") for turn in episode.turns[::2]
    ]


def test_what_was_written_is_an_exact_prefix_of_what_is_read_next(codec: Codec) -> None:
    """Also where the tokenizer would have cut the same text into other tokens."""

    class Spelling(ScriptedEngine):
        def generate(self, prompts: Any, row_keys: Any, **more: Any) -> Any:
            codec = self.codec
            self.codec = spelt
            try:
                return super().generate(prompts, row_keys, **more)
            finally:
                self.codec = codec

    class Spelt(Codec):
        def encode_text(self, text: str) -> tuple[int, ...]:
            return tuple(token for letter in text for token in super(Spelt, self).encode_text(letter))

    spelt = Spelt(codec.tokenizer)
    engine = Spelling(codec, call_then_answer)
    source, prompt = task()
    with Grader(SUMS, workers=0) as grader, Sessions({SUMS.name: SUMS}, workers=0) as sessions:
        (found,) = collect(
            engine,  # type: ignore[arg-type]
            codec,
            lambda source: grader,
            [(source, prompt)],
            samples=1,
            key=("test",),
            max_new_tokens=400,
            temperature=1.0,
            episodes=Episodes(codec, {"sums": sessions}, EpisodeLimits(4, 400)),
        )
    (first,), (second,) = engine.prompts
    start, end = found.generated[0].turns[0]
    sampled = found.generated[0].token_ids[start:end]
    assert second[: len(first) + len(sampled)] == first + sampled
    assert sampled != codec.encode_text(CALL)[: len(sampled)], "the tokenizer would have written it otherwise"
    assert found.scores[0].status is Status.CORRECT


def test_a_tool_that_prints_the_gold_earns_nothing(codec: Codec) -> None:
    (found,), _ = roll(codec, lambda text, key: "I do not know." if "</tool_call>" in text else CALL, [task()])
    read = codec.tokenizer.decode(found.generated[0].token_ids)
    assert "1517" in read and [score.reward for score in found.scores] == [0.0, 0.0]


def test_a_broken_call_is_told_and_counted(codec: Codec) -> None:
    (found,), _ = roll(codec, lambda text, key: "1517" if "</tool_call>" in text else BROKEN_CALL, [task()])
    assert found.episodes[0].turns[1].text.startswith("Error: no call was read")
    metrics = episode_metrics([found], positions=1000)
    assert metrics["sums/malformed_calls"] == 1.0 and metrics["sums/turns"] == 2.0 and metrics["sums/calls"] == 1.0
    assert 0 < metrics["sums/context_used"] < 1 and metrics["sums/reply_s"] >= 0 and metrics["sums/read_tokens"] > 0
    assert not episode_metrics([])


@pytest.mark.parametrize(
    ("limits", "reason", "turns"),
    [
        ({"max_turns": 3, "max_new_tokens": 400}, "turns", 3),
        ({"max_new_tokens": 5}, "length", 1),
        ({"max_turn_tokens": 5}, "length", 1),
        ({"positions": 48}, "context", 1),  # the reply has no room
        ({"positions": 75}, "context", 2),  # the second turn is cut
    ],
)
def test_a_limit_ends_it(codec: Codec, limits: dict[str, int], reason: str, turns: int) -> None:
    if "positions" in limits:
        limits = {"positions": limits["positions"] + len(codec.encode(task()[1]))}
    (found,), _ = roll(codec, lambda text, key: CALL, [task()], **limits)
    for episode, done in zip(found.episodes, found.generated, strict=True):
        assert episode.finish_reason == reason and episode.cut_off and done.finish_reason == "length"
        assert len(done.turns) == turns and done.turns[-1][1] == len(done.token_ids), "nothing that is read comes last"
        assert done.length <= limits.get("max_new_tokens", 120)
        assert len(found.prompt_ids) + len(done.token_ids) <= limits.get("positions", 10_000)
    assert found.truncated == [True, True] and {score.reward for score in found.scores} == {0.0}


def test_the_tokens_of_all_turns_have_one_budget(codec: Codec) -> None:
    size = len(codec.encode_text(CALL)) + 1
    (found,), _ = roll(codec, lambda text, key: CALL, [task()], max_new_tokens=2 * size + 3)
    assert found.generated[0].length == 2 * size + 3 and found.episodes[0].finish_reason == "length"
    assert [end - start for start, end in found.generated[0].turns] == [size, size, 3]


away: list[str] = []
"""One entry for each further call that finds the disk away, whatever its word."""


@tool
def fragile(word: str) -> str:
    """Fails on our side from one word on, for two calls, and has a bug for another word."""
    if away or word == "away":
        away.pop() if away else away.append(word)
        raise OSError("the disk is away")
    if word == "bug":
        raise KeyError(word)
    return word


def fragile_call(word: str) -> str:
    return f'<tool_call>{{"name": "fragile", "arguments": {{"word": "{word}"}}}}</tool_call>'


def test_our_failure_is_in_no_mean_and_the_models_mistake_is_its_own(codec: Codec) -> None:
    environment = ToolEnvironment(SumEnvironment(), [fragile], name="fragile_sums")

    def write(text: str, key: tuple[object, ...]) -> str:
        sample = key[-1] if key[-2] != "turn" else key[-3]
        words = ["fine", "away", "bug", "fine"]
        last = "0" if sample == 3 else "1517"
        return last if "</tool_call>" in text else fragile_call(words[int(str(sample))])

    (found,), _ = roll(codec, write, [task(environment=environment)], samples=4)
    assert [score.reward for score in found.scores] == [1.0, None, 1.0, 0.0]
    assert found.episodes[1].finish_reason == "abort" and found.episodes[1].failure is not None
    assert found.episodes[2].outcome is not None and found.episodes[2].outcome["tool_exceptions"]
    rule = {"sums": Credit(lambda rewards_PG, scored_PG, **_: (rewards_PG - 2 / 3).masked_fill(~scored_PG, 0.0))}
    (rows,) = training_rows([found], rule, codec, mask_truncated=False)
    assert [row.trained for row in rows] == [True, False, True, True]
    assert [round(row.advantage, 6) for row in rows] == [0.333333, 0.0, 0.333333, -0.666667]
    assert episode_metrics([found])["sums/tool_exceptions"] == 0.25


def test_replies_that_the_template_cannot_write_end_their_episode_alone(codec: Codec) -> None:
    """And half surrogates, which a tool repeats, are no such reply."""
    tokenizer = copy.deepcopy(codec.tokenizer)
    refuse = "{% for m in messages %}{{ raise_exception('rude') if 'rude' in m.content }}{% endfor %}"
    tokenizer.chat_template = refuse + tokenizer.chat_template
    environment = ToolEnvironment(SumEnvironment(), [fragile], name="fragile_sums")

    def write(text: str, key: tuple[object, ...]) -> str:
        sample = key[-1] if key[-2] != "turn" else key[-3]
        return "1517" if "</tool_call>" in text else fragile_call(["fine", "rude", r"\ud800", "fine"][int(str(sample))])

    (found,), _ = roll(Codec(tokenizer), write, [task(environment=environment)], samples=4)
    assert [score.reward for score in found.scores] == [1.0, None, 1.0, 1.0]
    assert found.episodes[1].failure is not None and "rude" in found.episodes[1].failure.message
    assert found.episodes[2].turns[1].text == "\ufffd"


def test_one_turn_beside_many(codec: Codec) -> None:
    """A completion of one turn is what it is without episodes beside it: the same key, the same call of the engine."""
    seen: dict[tuple[object, ...], int] = {}

    def write(text: str, key: tuple[object, ...]) -> str:
        seen[key] = len(seen)
        return call_then_answer(text, key) if "calculator" in text else "plain words"

    prompt = LettersEnvironment().prompt("say")
    letters = Source("letters", LettersEnvironment(), 1.0, lambda index: prompt, ()), prompt
    (plain, sums), engine = roll(codec, write, [letters, task()])
    assert plain.texts == ("plain words",) * 2 and not plain.episodes and plain.generated[0].loss_mask is None
    assert sums.scores[0].status is Status.CORRECT and len(engine.prompts) == 2
    (alone,), _ = roll(codec, write, [letters])
    assert (alone.generated, alone.texts, alone.prompt_ids) == (plain.generated, plain.texts, plain.prompt_ids)
    again, _ = roll(codec, write, [letters, task()])
    assert [group.generated for group in again] == [plain.generated, sums.generated]
    turn_keys = [key for key in seen if key[-2:-1] == ("turn",)]
    assert turn_keys and all(key[-1] == 1 for key in turn_keys)


def test_without_anything_that_plays_it_is_refused(codec: Codec) -> None:
    with Grader(SUMS, workers=0) as grader, pytest.raises(UsageError, match="'sum_with_tools' has episodes of several turns"):
        collect(
            ScriptedEngine(codec, call_then_answer),  # type: ignore[arg-type]
            codec,
            lambda source: grader,
            [task()],
            samples=1,
            key=("test",),
            max_new_tokens=9,
            temperature=1.0,
        )


def test_giving_up_ends_the_sessions(codec: Codec) -> None:
    calls = iter([False, False, True])
    with pytest.raises(Dropped):
        roll(codec, call_then_answer, [task()], samples=1, give_up=lambda: next(calls, True))


def test_a_group_survives_its_checkpoint(codec: Codec) -> None:
    (found,), _ = roll(codec, call_then_answer, [task()])
    data = json.loads(json.dumps(dump_group(found)))
    loaded = load_group(data, {"sums": SUMS})
    assert loaded.generated == found.generated and loaded.episodes == found.episodes and loaded.prompt.key == found.prompt.key
    assert codec.encode(loaded.prompt) == found.prompt_ids, "the tools are told to the model again"
    older = {**data, "generated": [row[:4] for row in data["generated"]]}
    older.pop("episodes")
    assert load_group(older, {"sums": SUMS}).generated[0].turns == ()


def rewarded(found: Group, rewards: Iterator[float | None]) -> Group:
    """Give the turns of the assistant these rewards."""
    episodes = []
    for episode in found.episodes:
        turns = [
            turn.model_copy(update={"reward": next(rewards)}) if turn.role == "assistant" else turn for turn in episode.turns
        ]
        episodes.append(episode.model_copy(update={"turns": tuple(turns)}))
    return Group(**{**vars(found), "episodes": tuple(episodes)})


def test_each_turn_gets_its_reward_to_go_less_the_others_mean_return(codec: Codec) -> None:
    """Two episodes of two turns: rewards 0.25 and 0, verdict 1; and 0.5 and 0.125, verdict 0."""

    def write(text: str, key: tuple[object, ...]) -> str:
        wrong = (key[-1] if key[-2] != "turn" else key[-3]) == 1
        return ("2" if wrong else "1517") if "</tool_call>" in text else CALL

    (played,), _ = roll(codec, write, [task()])
    assert [score.reward for score in played.scores] == [1.0, 0.0]
    found = rewarded(played, iter([0.25, None, 0.5, 0.125]))
    from verigym.trainer.advantages.turns import turn_returns

    rule = {"sums": Credit(turn_returns, by_turn=True)}
    (rows,) = training_rows([found], rule, codec, mask_truncated=False)
    returns = (1.25, 0.625)
    expected = [(returns[0] - returns[1], 1.0 - returns[1]), (returns[1] - returns[0], 0.125 - returns[0])]
    for row, done, (first, second) in zip(rows, found.generated, expected, strict=True):
        (a, b), (c, d) = done.turns
        assert row.token_advantages is not None
        assert row.token_advantages[a:b] == pytest.approx([first] * (b - a))
        assert row.token_advantages[c:d] == pytest.approx([second] * (d - c))
        assert set(row.token_advantages[b:c]) == {0.0}, "what was read has none"
    assert has_signal(found, rule["sums"])
    with pytest.raises(UsageError, match="rewards turns, and only advantage turn_returns looks at these"):
        training_rows([found], {"sums": Credit(turn_returns)}, codec, mask_truncated=False)
    assert turn_advantages(Group(**{**vars(found), "episodes": ()}), [0.0, 0.0], 1.0) is None
