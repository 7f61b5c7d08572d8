"""Keys and values that are kept between turns give what the whole conversation gives, in bounded memory."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from verigym.trainer.engines.base import Generated, Request
from verigym.trainer.engines.native.decoders import SharedDecoder, StaticDecoder
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.engines.native.turn_cache import TurnCache
from verigym.trainer.models.codec import Codec
from verigym.trainer.rng import keyed_random, keyed_uniforms

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14], [5, 9, 20, 21]]
PLENTY, LITTLE = 2**24, 10_000
TURNS, LONGEST = 4, 12


def read_between(episode: Hashable, turn: int) -> list[int]:
    """What an episode reads after a turn; of other lengths in each."""
    draw = keyed_random("read", episode, turn)
    return [draw.randrange(2, 60) for _ in range(draw.randint(1, 9))]


def play_turns(engine: NativeEngine, samples: int = 3) -> dict[tuple[int, int], list[Generated]]:
    """Play episodes of four turns in lockstep; half a turn ends its episode."""
    live = {(p, g): list(prompt) for p, prompt in enumerate(PROMPTS) for g in range(samples)}
    found: dict[tuple[int, int], list[Generated]] = {place: [] for place in live}
    for turn in range(TURNS):
        requests = [Request(place, ids, ("key", *place, turn), LONGEST, place) for place, ids in live.items()]
        engine.play(requests, temperature=1.0, on_finished=lambda p, g, done: found[p, g].append(done))
        over = [place for place in live if found[place][-1].finish_reason == "length"]
        engine.forget(over)
        live = {
            place: [*ids, *found[place][-1].token_ids, *read_between(place, turn)]
            for place, ids in live.items()
            if place not in over
        }
    return found


def tokens(found: dict[tuple[int, int], list[Generated]]) -> dict[tuple[int, int], list[tuple[int, ...]]]:
    return {place: [done.token_ids for done in turns] for place, turns in found.items()}


def logprobs(found: dict[tuple[int, int], list[Generated]]) -> torch.Tensor:
    return torch.tensor([logp for turns in found.values() for done in turns for logp in done.logprobs])


def engine_for(model: Any, codec: Codec, cache_bytes: int, **more: Any) -> NativeEngine:
    return NativeEngine(model, codec, **{"rows_at_a_time": 64, "dtype": "fp32", "episode_cache_bytes": cache_bytes, **more})


def models(policy: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "qwen3": copy.deepcopy(policy),
        "qwen2 with biases": Qwen2ForCausalLM(Qwen2Config(**SIZES)),
        "llama": LlamaForCausalLM(LlamaConfig(**SIZES)),
    }
    for name, model in made.items():
        if name != "qwen3":
            with torch.no_grad():
                for part, parameter in model.named_parameters():
                    values = keyed_uniforms(parameter.numel(), part) - 0.5
                    parameter.copy_(values.reshape(parameter.shape) + ("norm" in part))
    return {name: model.double().eval() for name, model in made.items()}


@pytest.mark.parametrize("static", [False, True])
def test_states_go_on_as_the_whole_conversation_does(policy: Any, static: bool, assert_same: Any) -> None:
    """Rows of other lengths, of which some have states and some have none, and whose states are taken on again."""
    for model in models(policy).values():
        with torch.no_grad():

            def decoder(model: Any = model) -> SharedDecoder | StaticDecoder:
                return StaticDecoder(model, 60, 0, 8) if static else SharedDecoder(model, 60, 0)

            first = decoder()
            first.add([(0, PROMPTS[0]), (0, PROMPTS[0]), (1, PROMPTS[1]), (2, PROMPTS[2])])
            whole = [[*PROMPTS[0]], [*PROMPTS[0]], [*PROMPTS[1]], [*PROMPTS[2]]]
            for token in (7, 21, 33):
                first.step(torch.tensor([token, token + 1, token + 2, token + 3]))
                whole = [[*ids, token + row] for row, ids in enumerate(whole)]
            kept = {row: first.states(row) for row in (0, 1, 3)}
            for turn in range(2):
                for row, states in kept.items():
                    assert [layer.shape[2] for layer in states] == [len(whole[row])] * 2
                again = decoder()
                whole = [[*ids, *read_between(row, turn)] for row, ids in enumerate(whole)]
                logits = again.add(list(enumerate(whole)), kept)
                for ids, row_logits in zip(whole, logits, strict=True):
                    assert_same(row_logits.detach(), model(torch.tensor([ids])).logits[0, -1])
                logits = again.step(torch.tensor([3, 4, 5, 6]))
                whole = [[*ids, 3 + row] for row, ids in enumerate(whole)]
                for ids, row_logits in zip(whole, logits, strict=True):
                    assert_same(row_logits.detach(), model(torch.tensor([ids])).logits[0, -1])
                kept = {row: again.states(row) for row in (1, 2, 3)}


def test_a_row_that_has_ended_at_once_has_the_states_of_its_prompt(policy: Any) -> None:
    decoder = SharedDecoder(policy, 40, 0)
    with torch.no_grad():
        decoder.add([(0, PROMPTS[0]), (1, PROMPTS[1])])
        assert [layer.shape[2] for layer in decoder.states(1)] == [len(PROMPTS[1])] * len(decoder.states(1))


@pytest.mark.parametrize(("rows_at_a_time", "static_cache"), [(64, False), (5, False), (64, True), (5, True)])
def test_tokens_are_the_same_with_and_without(
    policy: Any, codec: Codec, rows_at_a_time: int, static_cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Hashable] = []
    take = TurnCache.take

    def noted(cache: TurnCache, episode: Hashable, prompt: Sequence[int]) -> Any:
        found = take(cache, episode, prompt)
        taken.extend([episode] if found is not None else [])
        return found

    monkeypatch.setattr(TurnCache, "take", noted)
    more: dict[str, Any] = {"rows_at_a_time": rows_at_a_time, "static_cache": static_cache}
    kept = play_turns(engine_for(policy, codec, PLENTY, **more))
    later = sum(len(turns) - 1 for turns in kept.values())
    assert len(taken) == later > 0, "every later turn goes on from what was kept"
    again = play_turns(engine_for(policy, codec, 0, **more))
    assert len(taken) == later
    assert tokens(kept) == tokens(again)
    torch.testing.assert_close(logprobs(kept), logprobs(again), rtol=0, atol=1e-5)
    assert max(map(len, kept.values())) == TURNS


def test_the_same_episodes_twice_are_the_same_to_the_bit(policy: Any, codec: Codec) -> None:
    """Also where there is room for some of them: whose states are kept depends on what was sampled alone."""
    for room in (PLENTY, LITTLE):
        engine = engine_for(policy, codec, room)
        first, second = play_turns(engine), play_turns(engine_for(policy, codec, room))
        assert first == second
        assert bool(engine.turn_cache.refused) is (room != PLENTY)


def test_memory_is_bounded_and_what_has_no_room_is_told(
    policy: Any, codec: Codec, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    most = 0
    keep = TurnCache.keep

    def watched(cache: TurnCache, *more: Any) -> None:
        nonlocal most
        keep(cache, *more)
        held = sum(layer.nbytes for _, states in cache._kept.values() for layer in states)
        assert held == cache.bytes
        most = max(most, held)

    monkeypatch.setattr(TurnCache, "keep", watched)
    whole = play_turns(engine_for(policy, codec, PLENTY))
    assert most > LITTLE and not caplog.records
    most = 0
    engine = engine_for(policy, codec, LITTLE)
    assert tokens(play_turns(engine)) == tokens(whole)
    assert 0 < most <= LITTLE and engine.turn_cache.refused > 1
    assert [record.message for record in caplog.records] == [
        "episode_cache_mb: 0.00953674 MiB do not hold the keys and values of all episodes; the turns of the others are "
        "computed from the first token"
    ]


@pytest.mark.parametrize("when", ["sync", "rest", "close", "forget"])
def test_what_is_kept_ends_with_the_weights_and_with_the_episodes(policy: Any, codec: Codec, when: str) -> None:
    model = copy.deepcopy(policy)
    engine = engine_for(model, codec, PLENTY)
    play_turns(engine)
    assert engine.turn_cache.bytes and len(engine.turn_cache)
    engine.forget([(p, g) for p in range(4) for g in range(3)]) if when == "forget" else getattr(engine, when)()
    assert not engine.turn_cache.bytes and not len(engine.turn_cache)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    assert tokens(play_turns(engine)) == tokens(play_turns(engine_for(model, codec, 0)))


def test_states_of_other_tokens_are_never_used(policy: Any, codec: Codec) -> None:
    engine = engine_for(policy, codec, PLENTY)
    found: list[Generated] = []

    def ask(ids: Sequence[int], episode: Hashable, key: int) -> Generated:
        engine.play(
            [Request((0, 0), ids, ("k", key), LONGEST, episode)], temperature=1.0, on_finished=lambda p, g, d: found.append(d)
        )
        return found[-1]

    key = next(key for key in range(50) if ask(PROMPTS[1], "one", key).finish_reason == "stop")
    ask(PROMPTS[1], "one", key)
    assert len(engine.turn_cache) == 1
    other = [9, *PROMPTS[1][1:], *found[-1].token_ids, 30]
    assert ask(other, "one", 7) == ask(other, None, 7), "a prompt that does not begin with the tokens of the states"


def test_a_turn_that_was_cut_off_keeps_nothing(policy: Any, codec: Codec) -> None:
    engine = engine_for(policy, codec, PLENTY)
    reasons: list[str] = []
    requests = [Request((0, g), PROMPTS[0], ("cut", g), 2, ("episode", g)) for g in range(20)]
    engine.play(requests, temperature=1.0, on_finished=lambda p, g, done: reasons.append(done.finish_reason))
    assert set(reasons) == {"stop", "length"} and len(engine.turn_cache) == reasons.count("stop")


def test_a_model_that_native_decoding_does_not_know_plays_without(codec: Codec) -> None:
    with torch.random.fork_rng():  # weights of its own, whatever test came before: some episode must have a second turn
        torch.manual_seed(0)
        model = MistralForCausalLM(MistralConfig(**{**SIZES, "vocab_size": 512}, sliding_window=4)).eval()
    engine = engine_for(model, codec, PLENTY)
    found = play_turns(engine)
    assert not len(engine.turn_cache) and max(map(len, found.values())) > 1
    assert tokens(found) == tokens(play_turns(engine_for(model, codec, 0)))


class Joining:
    """The same episodes, each of which goes on a few tokens after its turn has ended."""

    def __init__(self) -> None:
        self.so_far = {(p, g): list(prompt) for p, prompt in enumerate(PROMPTS) for g in range(3)}
        self.found: dict[tuple[int, int], list[Generated]] = {place: [] for place in self.so_far}
        self.waiting: list[Request] = []
        self.calls: list[bool] = []

    def request(self, place: tuple[int, int]) -> Request:
        return Request(place, tuple(self.so_far[place]), ("key", *place, len(self.found[place])), LONGEST, place)

    def finished(self, p: int, g: int, done: Generated) -> None:
        place, turn = (p, g), len(self.found[p, g])
        self.found[place].append(done)
        if done.finish_reason == "stop" and turn + 1 < TURNS:
            self.so_far[place] += [*done.token_ids, *read_between(place, turn)]
            self.waiting.append(self.request(place))

    def arrivals(self, idle: bool) -> list[Request]:
        self.calls.append(idle)
        late = [] if not idle and len(self.calls) % 4 else list(self.waiting)
        del self.waiting[: len(late)]
        return late


@pytest.mark.parametrize("rows_at_a_time", [64, 3])
@pytest.mark.parametrize("known", [True, False])
def test_turns_join_while_others_are_sampled(
    policy: Any, codec: Codec, rows_at_a_time: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer ones than those that were asked for first, too; the tokens are those of rounds."""
    rounds = play_turns(engine_for(policy, codec, PLENTY))
    if not known:  # rows of such models join once no other is sampled
        monkeypatch.setattr("verigym.trainer.engines.native.decoders.decodable", lambda model: False)
    engine, joining = engine_for(policy, codec, PLENTY, rows_at_a_time=rows_at_a_time), Joining()
    requests = [joining.request(place) for place in joining.so_far]
    engine.play(requests, temperature=1.0, on_finished=joining.finished, arrivals=joining.arrivals)
    assert tokens(joining.found) == tokens(rounds)
    torch.testing.assert_close(logprobs(joining.found), logprobs(rounds), rtol=0, atol=1e-5)
    assert joining.calls.count(False) > 10 and joining.calls[-1], "asked between tokens, and at last whether any will come"
