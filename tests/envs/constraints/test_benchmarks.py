"""IFEval and IFBench as they are published; the docs."""

import json
from pathlib import Path

import pytest

from verigym.datasets_cfg import load
from verigym.datasets_cfg.load import RowError
from verigym.envs.conformance import check_env
from verigym.envs.constraints.environment import ConstraintsEnvironment

PAGE = (Path(__file__).parents[3] / "docs/constraints.md").read_text(encoding="utf-8")


def listed(heading):
    """Return the keys that the docs list under a heading."""
    block = PAGE.partition(f"{heading}\n\n```\n")[2].partition("\n```")[0]
    assert block, heading
    return sorted(int(key) for key in block.split())


@pytest.fixture(scope="module")
def made(tmp_path_factory, shared_data):
    cache = tmp_path_factory.mktemp("datasets_cache")

    def prompts(name, split):
        rows = load(name, split, data_dir=shared_data, cache_dir=cache)
        found, refused = [], []
        for number in range(len(rows)):
            try:
                found.append(rows[number])
            except RowError as error:
                refused.append(str(error))
        return found, refused

    return {"ifeval": prompts("ifeval", "train"), "ifbench": prompts("ifbench", "test")}


@pytest.mark.usefixtures("extra")
def test_all_540_prompts_of_ifeval_load(made, shared_data):
    prompts, refused = made["ifeval"]
    assert (len(prompts), refused) == (540, [])
    raw = [json.loads(line) for line in (shared_data / "ifeval/input_data.jsonl").read_text().splitlines()]
    for prompt, row in zip(prompts, raw, strict=True):
        reference = prompt.references["constraints"]
        assert (prompt.text, list(reference.instruction_id_list)) == (row["prompt"], row["instruction_id_list"])
        assert json.loads(reference.model_dump_json())["kwargs"] == row["kwargs"]
    assert len({id for prompt in prompts for id in prompt.references["constraints"].instruction_id_list}) == 25


@pytest.mark.usefixtures("extra")
def test_294_prompts_of_ifbench_load_and_six_say_what_is_missing(made):
    prompts, refused = made["ifbench"]
    assert (len(prompts), len(refused)) == (294, 6)
    assert all("'words:start_verb' cannot be checked: it needs nltk's model" in error for error in refused)
    assert len({id for prompt in prompts for id in prompt.references["constraints"].instruction_id_list}) == 57


@pytest.mark.usefixtures("extra")
@pytest.mark.parametrize("name", ["ifeval", "ifbench"])
@pytest.mark.slow
def test_what_an_echo_satisfies_is_listed_and_closed(made, name):
    prompts, _ = made[name]
    for mode in ("strict", "loose"):
        lax, strict = ConstraintsEnvironment(mode=mode, strict_echo=False), ConstraintsEnvironment(mode=mode)
        open_to_echo = [prompt for prompt in prompts if lax.score(prompt, prompt.text).reward == 1.0]
        keys = sorted(int(prompt.metadata["key"]) for prompt in open_to_echo)
        if name == "ifeval" and mode == "loose":
            assert keys == sorted(listed("IFEval, strict and loose") + listed("IFEval, loose alone"))
        else:
            assert keys == listed("IFEval, strict and loose" if name == "ifeval" else "IFBench")
        for prompt in prompts:
            assert strict.score(prompt, prompt.text).reward == 0.0
            assert strict.score(prompt, f"{prompt.text}\n{prompt.text}".lower()).reward == 0.0


@pytest.mark.usefixtures("extra")
def test_the_repeated_request_is_judged_right_on_every_row(made):
    env = ConstraintsEnvironment()
    asked = 0
    for prompt in made["ifeval"][0]:
        reference = prompt.references["constraints"]
        for id, given in zip(reference.instruction_id_list, reference.kwargs, strict=True):
            if id == "combination:repeat_prompt":
                asked += 1
                request = given["prompt_to_repeat"]
                for text, followed in (
                    (f"{request}\n\nHere it is", 1.0),
                    (f"Sure.\n{request}", 0.0),
                    (f"{request[:-9]} x", 0.0),
                ):
                    assert env.score(prompt, text).components[id] == followed
    assert asked == 41


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "free"),
    [({}, []), ({"mode": "loose"}, ["hacks"]), ({"reward": "share", "strict_echo": False}, ["echo", "garbage", "hacks"])],
    ids=str,
)
def test_the_environment_keeps_its_contract(options, free):
    env = ConstraintsEnvironment(**options)
    assert {group for group, expected in env.expected_verdicts.model_dump().items() if expected == "free"} == set(free)
    report = check_env(env)
    assert report.passed, str(report)
