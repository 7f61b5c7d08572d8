"""Outcome and process reward in one mixture, by YAML: each token's advantage by hand, and what each odd case means."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from verigym.envs import Environment, Score, UsageError
from verigym.envs.composition.operators import AllOf, Gate, WeightedSum
from verigym.envs.contract.schema import Completion, StepScore
from verigym.envs.process.environment import ProcessEnvironment
from verigym.envs.registry import load
from verigym.trainer.config.run import TrainConfig, read_config
from verigym.trainer.credit.rows import Credit, credits_of, has_signal, training_rows
from verigym.trainer.engines.base import Generated
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import Group
from verigym.trainer.rollout.group_json import dump_group, load_group
from verigym.trainer.tasks.mixture import Source, build_source

YAML = """
model: m
output: o
step_rewards: true
advantage: centred
sources:
  - environment: arithmetic
    add: {process: {weight: 0.5, options: {split: lines}}, length: {weight: 0.25}}
"""


@pytest.fixture(scope="module")
def codec(tiny_tokenizer: Any) -> Codec:
    return Codec(tiny_tokenizer)


def read(tmp_path: Path, text: str, *overrides: str) -> tuple[TrainConfig, Source, Credit]:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    config = read_config(path, overrides)
    sources = [build_source(source, 0, 1) for source in config.sources]
    credit = credits_of(config, {source.label: source.environment for source in sources})
    return config, sources[0], credit[sources[0].label]


def made(source: Source, codec: Codec, pieces: Sequence[Sequence[str] | Score]) -> tuple[Group, str]:
    """Return a group of completions, each written piece by piece; ANSWER stands for the right one, a Score for its own."""
    prompt = source.train(0)
    reference = next(iter(ref for part, ref in prompt.references.items() if part.rpartition("/")[2] == "arithmetic"))
    answer = str(reference.answer)
    texts = [["?"] if isinstance(one, Score) else [piece.replace("ANSWER", answer) for piece in one] for one in pieces]
    ids = [tuple(itertools.chain.from_iterable(codec.encode_text(piece) for piece in one)) for one in texts]
    scores = [
        one
        if isinstance(one, Score)
        else source.environment.score(prompt, Completion(text="".join(text), finish_reason="stop"))
        for one, text in zip(pieces, texts, strict=True)
    ]
    generated = tuple(Generated(row, (-1.0,) * len(row), "stop") for row in ids)
    group = Group(source.label, prompt, (5, 6), generated, tuple("".join(text) for text in texts), tuple(scores))
    return group, answer


def by_piece(group: Group, credit: Credit, codec: Codec, pieces: Sequence[Sequence[str]], answer: str) -> list[list[float]]:
    """Return the advantage of each piece; all tokens of a piece must have the same."""
    (rows,) = training_rows([group], {group.source: credit}, codec, mask_truncated=False)
    found = []
    for row, texts in zip(rows, pieces, strict=True):
        left = list(row.advantages)
        found.append([])
        for text in texts:
            count = len(codec.encode_text(text.replace("ANSWER", answer)))
            mine, left = left[:count], left[count:]
            assert len(set(mine)) == 1
            found[-1].append(mine[0])
        assert not left
    return found


BOX = "\\boxed{ANSWER}"


def test_outcome_and_process_by_hand(tmp_path: Path, codec: Codec) -> None:
    _, source, credit = read(tmp_path, YAML.replace(", length: {weight: 0.25}", ""))
    pieces = [
        ["1+1=2\n", "2+2=5\n", BOX],  # steps 1 and 0, the answer right
        ["1+1=2\n", BOX],  # one right step
        ["\\boxed{x}"],  # no step that can be judged: one of 0 at its end
    ]
    group, answer = made(source, codec, pieces)
    assert [score.reward for score in group.scores] == [1.0, 1.5, 0.0]
    # Outcomes 1, 1, 0, less their mean 2/3. Steps 1, 0, 1, 0: mean 1/2, deviation sqrt(1/3), so +-0.866025, times 0.5.
    third, step = 1 / 3, 0.5 * 0.8660254037844386
    expected = [[third + step - step, third - step, third], [third + step, third], [-2 * third - step]]
    for row, wanted in zip(by_piece(group, credit, codec, pieces, answer), expected, strict=True):
        assert row == pytest.approx(wanted, abs=1e-12)


def test_each_part_is_normalised_by_itself_and_the_own_advantage_is_of_the_outcome(tmp_path: Path, codec: Codec) -> None:
    text = YAML.replace("advantage: centred", "advantage: grpo\nadvantage_options: {eps: 0.0}").replace(
        "length: {weight: 0.25}", "other: {environment: process, weight: 0.25, options: {split: sentences}}"
    )
    _, source, credit = read(tmp_path, text)
    pieces = [["1+1=2\n", "2+2=5\n", BOX], ["1+1=2\n", "\\boxed{x}"], ["3+3=7\n", "\\boxed{x}"]]
    group, answer = made(source, codec, pieces)
    # Outcomes 1, 0, 0: mean 1/3, deviation 0.577350: 1.154701 and -0.577350.
    # Lines 1, 0 | 1 | 0: +-0.866025 as above. Sentences, one each to the end: 0, 1, 0: -0.577350, 1.154701, -0.577350.
    line, low, high = 0.8660254037844386, -0.5773502691896258, 1.1547005383792515
    first = [high + 0.25 * low, high - 0.5 * line + 0.25 * low, high + 0.25 * low]
    second = [low + 0.5 * line + 0.25 * high, low + 0.25 * high]
    third = [low - 0.5 * line + 0.25 * low, low + 0.25 * low]
    for row, wanted in zip(by_piece(group, credit, codec, pieces, answer), [first, second, third], strict=True):
        assert row == pytest.approx(wanted, abs=1e-12)


def test_added_rewards_without_steps_are_of_the_outcome(tmp_path: Path, codec: Codec) -> None:
    _, source, credit = read(tmp_path, YAML)
    pieces = [["1+1=2\n", BOX], ["1+1=2\n", BOX + " well, well, well"]]
    group, answer = made(source, codec, pieces)
    lengths = [score.components["length"] or 0.0 for score in group.scores]
    assert lengths[0] != lengths[1]
    half = 0.25 * (lengths[0] - lengths[1]) / 2
    for row, wanted in zip(by_piece(group, credit, codec, pieces, answer), [[half] * 2, [-half] * 2], strict=True):
        assert row == pytest.approx(wanted, abs=1e-12)
    (rows,) = training_rows([group], {group.source: credit}, codec, mask_truncated=False)
    assert [row.advantage for row in rows] == pytest.approx([half, -half])


def test_a_shut_gate_is_the_floor_of_every_part(tmp_path: Path, codec: Codec) -> None:
    text = YAML.replace(", length: {weight: 0.25}", "").replace("    add:", "    format: {tags: [], boxes: 1}\n    add:")
    _, source, credit = read(tmp_path, text)
    pieces = [["1+1=2\n", BOX], ["1+1=2\n", BOX + BOX], ["1+1=3\n", BOX]]
    group, answer = made(source, codec, pieces)
    assert [score.reward for score in group.scores] == [1.5, 0.0, 1.0]
    # Outcomes 1, 0, 1. Steps 1 | 0, at the end of what the gate kept out | 0: mean 1/3, deviation 0.577350.
    third, low, high = 1 / 3, -0.5773502691896258, 1.1547005383792515
    expected = [[third + 0.5 * high, third], [-2 * third + 0.5 * low] * 2, [third + 0.5 * low, third]]
    for row, wanted in zip(by_piece(group, credit, codec, pieces, answer), expected, strict=True):
        assert row == pytest.approx(wanted, abs=1e-12)


class Sometimes(ProcessEnvironment):
    """A process reward whose server is down for some texts."""

    name = "sometimes"

    def judge(self, prompt: Any, reference: Any, completion: Completion) -> Score:
        return Score.failed("backend", "down") if "DOWN" in completion.text else super().judge(prompt, reference, completion)


def composed(codec: Codec, environment: Environment, advantage: str = "centred") -> tuple[Source, Credit]:
    arithmetic: Any = load("arithmetic")
    around: Any = environment

    def train(index: int) -> Any:
        return around.around(arithmetic.prompt_at("train", 0, index))

    source = Source("s", environment, 1.0, train, ())
    fields: dict[str, Any] = {"model": "m", "output": "o", "sources": [{"environment": "arithmetic", "name": "s"}]}
    return source, credits_of(TrainConfig(**fields, step_rewards=True, advantage=advantage), {"s": environment})["s"]


def test_what_has_no_verdict_is_in_no_mean(codec: Codec) -> None:
    parts = {"arithmetic": load("arithmetic"), "process": Sometimes(split="lines")}
    source, credit = composed(codec, WeightedSum({"arithmetic": 1.0, "process": 0.5}, parts, optional=["process"]))
    pieces: list[Any] = [["1+1=2\n", BOX], ["1+1=3\n", "\\boxed{x}"], ["DOWN", BOX], Score.failed("crashed", "killed")]
    group, answer = made(source, codec, pieces)
    assert group.scores[2].components["process"] is None and group.scores[2].reward == 1.0
    # Outcomes 1, 0, 1 and none; steps 1 and 0 alone: +-0.707107. The failed part adds nothing, the failed whole gets nothing.
    third, step = 1 / 3, 0.5 * 0.7071067811865476
    expected = [[third + step, third], [-2 * third - step, -2 * third], [third] * 2, [0.0]]
    for row, wanted in zip(by_piece(group, credit, codec, [*pieces[:3], ["?"]], answer), expected, strict=True):
        assert row == pytest.approx(wanted, abs=1e-12)
    (rows,) = training_rows([group], {"s": credit}, codec, mask_truncated=False)
    assert [row.trained for row in rows] == [True, True, True, False]


def test_a_group_without_steps_is_credited_by_the_rewards_of_the_parts(tmp_path: Path, codec: Codec) -> None:
    _, source, credit = read(tmp_path, YAML.replace(", length: {weight: 0.25}", ""))
    group, answer = made(source, codec, [[BOX], ["\\boxed{x}"]])
    assert group.scores[0].steps is None and group.scores[0].components["process"] == 0.0
    assert by_piece(group, credit, codec, [[BOX], ["\\boxed{x}"]], answer) == [[0.5], [-0.5]]
    other, _ = made(source, codec, [["1+1=2\n", BOX], ["1+1=3\n", BOX]])
    assert has_signal(group, credit) and has_signal(other, credit)
    same, _ = made(source, codec, [["1+1=2\n", BOX], ["2+1=3\n", BOX]])
    assert not has_signal(same, credit), "outcomes and steps are all equal"


def scored(arithmetic: float, steps: Sequence[float], cut: int) -> Score:
    found = tuple(StepScore(start=0, end=min(n + cut, 9), reward=reward, part="process") for n, reward in enumerate(steps))
    components = {"arithmetic": arithmetic, "process": min(steps, default=0.0)}
    reward = arithmetic + 0.5 * (components["process"] or 0.0)
    return Score.partial(reward).model_copy(update={"components": components, "steps": found or None})


def test_a_group_that_would_be_trained_on_has_a_signal(codec: Codec) -> None:
    parts = {"arithmetic": load("arithmetic"), "process": load("process")}
    source, credit = composed(codec, WeightedSum({"arithmetic": 1.0, "process": 0.5}, parts))
    ids = tuple(itertools.chain.from_iterable(codec.encode_text(letter) for letter in "123456789"))
    pool = [scored(a, steps, cut) for a in (0.0, 1.0) for steps in ((), (1.0,), (0.0, 1.0), (1.0, 1.0)) for cut in (1, 4)]
    seen = set()
    for pair in itertools.product(pool, pool):
        generated = tuple(Generated(ids, (-1.0,) * len(ids), "stop") for _ in pair)
        group = Group("s", source.train(0), (5,), generated, ("123456789",) * 2, pair)
        (rows,) = training_rows([group], {"s": credit}, codec, mask_truncated=False)
        trained, signal = any(any(row.advantages) for row in rows), has_signal(group, credit)
        assert signal or not trained
        seen.add((trained, signal))
    assert {(True, True), (False, False)} <= seen


def test_steps_that_merge_within_a_token_move_the_others(codec: Codec) -> None:
    """The mean of all steps is 1/2, so the first completion seems at rest; it is moved where the second's three steps merge."""
    parts = {"arithmetic": load("arithmetic"), "process": load("process")}
    source, credit = composed(codec, WeightedSum({"arithmetic": 1.0, "process": 0.5}, parts))
    ids = tuple(codec.encode_text("1"))
    half, merged = ((0, 0.5),), ((0, 0.0), (1, 0.5), (1, 1.0))
    found = [
        Score.partial(0.0).model_copy(
            update={
                "reward": 0.5 * min(reward for _, reward in steps),
                "components": {"arithmetic": 0.0, "process": min(reward for _, reward in steps)},
                "steps": tuple(StepScore(start=0, end=end, reward=reward, part="process") for end, reward in steps),
            }
        )
        for steps in (half, merged)
    ]
    generated = (Generated(ids, (-1.0,) * len(ids), "stop"), Generated(ids, (-1.0,) * len(ids), "length"))
    group = Group("s", source.train(0), (5,), generated, ("1",) * 2, tuple(found))
    ((first, second),) = training_rows([group], {"s": credit}, codec, mask_truncated=True)
    assert first.trained and not second.trained and any(first.advantages)
    assert has_signal(group, credit, mask_truncated=True)


def test_groups_of_a_checkpoint_keep_their_steps(tmp_path: Path, codec: Codec) -> None:
    _, source, credit = read(tmp_path, YAML)
    group, answer = made(source, codec, [["1+1=2\n", BOX], ["1+1=3\n", BOX]])
    back = load_group(dump_group(group), {source.label: source.environment})
    assert back == group
    pieces = [["1+1=2\n", BOX], ["1+1=3\n", BOX]]
    assert by_piece(back, credit, codec, pieces, answer) == by_piece(group, credit, codec, pieces, answer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("add: {process: {weight: 0.5, options: {split: lines}}, ", "add: {"),
            "step_rewards has no effect: no source's reward",
        ),
        (("process: {weight: 0.5", "process: {weight: 0"), "step_rewards has no effect"),
        (("advantage: centred", "advantage: gdpo\nreward_weights: {process: 1.0}"), "source 'arithmetic': gdpo compares"),
        (("advantage: centred", "kl_coef: 0.1\nkl_place: reward"), "use kl_place loss"),
        (("advantage: centred", "advantage: gae"), "step_rewards would take the place of the critic's"),
    ],
)
def test_what_has_no_effect_is_refused(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    assert change[0] in YAML
    with pytest.raises(UsageError, match=message):
        read(tmp_path, YAML.replace(*change))


def test_a_source_without_steps_keeps_its_own_rule_beside_one_with(tmp_path: Path) -> None:
    text = (
        YAML
        + "  - {environment: units, advantage: gdpo, reward_weights: {units: 1.0, length: 0.5}, add: {length: {weight: 0.1}}}\n"
    )
    config, _, with_steps = read(tmp_path, text)
    sources = [build_source(source, 0, 1) for source in config.sources]
    credit = credits_of(config, {source.label: source.environment for source in sources})
    assert with_steps.terms and not credit["units"].terms


def test_steps_without_a_share_of_the_reward_are_refused_by_name(codec: Codec) -> None:
    parts = {"arithmetic": load("arithmetic"), "process": load("process")}
    with pytest.raises(UsageError, match="source 's': step_rewards: .*'process' scores steps, but the reward of AllOf"):
        composed(codec, AllOf(parts))
    with pytest.raises(UsageError, match="a gate's condition has no share"):
        composed(codec, Gate({"process": parts["process"]}, {"arithmetic": parts["arithmetic"]}))


class Undeclared(ProcessEnvironment):
    """Scores steps and does not say so."""

    name = "undeclared"
    scores_steps = False


def test_steps_that_are_not_declared_stop_the_run(codec: Codec) -> None:
    parts = {"arithmetic": load("arithmetic"), "process": load("process"), "other": Undeclared(split="lines")}
    source, credit = composed(codec, WeightedSum({"arithmetic": 1.0, "process": 0.5, "other": 0.25}, parts))
    group, _ = made(source, codec, [["1+1=2\n", BOX], ["1+1=3\n", BOX]])
    with pytest.raises(UsageError, match="the part 'other' scored steps without declaring it.*scores_steps = True"):
        training_rows([group], {"s": credit}, codec, mask_truncated=False)


def test_batch_wide_advantages_compare_outcomes_alone(tmp_path: Path, codec: Codec) -> None:
    """A group with steps and one without are of one unit: what process is worth is in neither outcome."""
    _, source, credit = read(
        tmp_path, YAML.replace("advantage: centred", "advantage: reinforce++").replace(", length: {weight: 0.25}", "")
    )
    with_steps, _ = made(source, codec, [["1+1=2\n", BOX], ["1+1=2\n", "\\boxed{x}"]])
    without, _ = made(source, codec, [[BOX], ["\\boxed{x}"]])
    found = training_rows([with_steps, without], {source.label: credit}, codec, mask_truncated=False)
    advantages = torch.tensor([[row.advantage for row in rows] for rows in found])
    assert torch.equal(advantages[0], advantages[1]) and advantages.abs().min() > 0
