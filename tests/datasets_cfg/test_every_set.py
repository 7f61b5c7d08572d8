"""Every description that comes with the package: whole, with a sample row that becomes a prompt whose gold holds."""

import pytest
from needs import lack

from verigym.datasets_cfg import available, load, load_config, load_sample, validate
from verigym.datasets_cfg.load import description
from verigym.datasets_cfg.yamlfile import parse
from verigym.envs import EnvironmentFailure
from verigym.envs.grading import Grader

NAMED = (
    "gsm8k math math500 aime24 aime25 amc23 minerva_math olympiadbench gaokao2023en svamp sat_math numinamath deepscaler "
    "dapo17k big_math humaneval humaneval_plus mbpp mbpp_plus apps code_contests livecodebench taco minif2f proofnet "
    "putnambench ifeval ifbench gpqa mmlu_pro knights_and_knaves countdown_tasks reasoning_gym_chain_sum"
).split()


def test_the_named_sets_are_there():
    assert set(NAMED) <= set(available())


@pytest.mark.parametrize("name", available())
def test_a_description_is_whole(name):
    config = load_config(name)
    assert config.name == name and config.contamination, name
    assert config.generated or config.sample_row
    text = description(name)
    named = list(parse(text, name).fields)
    assert config.generated or named.index("sample_row") > named.index("environment")
    if config.hub is not None:
        assert config.hub.revision is None, "a commit that nobody has looked up is invented"
        assert f"\n  revision: null{chr(10)}" in text, "pin has its place"


@pytest.mark.parametrize("name", available())
def test_the_sample_row_becomes_a_prompt_whose_gold_holds(name):
    config = load_config(name)
    prompts, again = load_sample(name), load_sample(name)
    try:
        if config.environment == "reasoning_gym":
            prompts.environment.check()
    except EnvironmentFailure as failure:
        lack("reasoning-gym", failure)
    made = list(prompts)
    assert [prompt.key for prompt in made] == [prompt.key for prompt in again]
    for prompt in made:
        gold = prompts.environment.gold(prompt)
        assert (gold is None) <= (config.golds != "all"), "a row without a gold, where all should have one"
        if gold is not None and config.environment not in ("lean", "code"):
            assert prompts.environment.score(prompt, gold).reward == prompts.environment.reward_range[1]
            assert prompts.environment.score(prompt, "No idea.").reward == prompts.environment.reward_range[0]


@pytest.mark.parametrize("name", ["mbpp_plus", "humaneval_plus", "taco"])
def test_programs_of_new_layouts_pass_and_others_fail(name):
    prompts = load_sample(name)
    try:
        prompts.environment.check()
    except EnvironmentFailure as failure:
        lack("sandbox", failure)
    gold = prompts.environment.gold(prompts[0])
    assert prompts.environment.score(prompts[0], gold).reward == 1.0
    assert prompts.environment.score(prompts[0], gold.replace("2 *", "3 *")).reward == 0.0


@pytest.mark.parametrize(
    ("name", "split", "rows", "right"),
    [
        ("aime24", "test", 30, 30),
        ("amc23", "test", 40, 40),
        ("sat_math", "test", 32, 32),
        ("countdown_generated", "test", 500, 500),
    ],
)
def test_golds_of_small_sets_hold(shared_data, name, split, rows, right):
    prompts = load(name, split, data_dir=shared_data)
    with Grader(prompts.environment, workers=0) as grader:
        report = validate(prompts, grader)
    assert (report.rows, report.passed, report.without_gold) == (rows, right, 0), report.failures[:3]


@pytest.mark.parametrize(("name", "split", "rows"), [("minif2f", "test", 244), ("proofnet", "valid", 185)])
def test_sets_without_golds_load_parse_and_repeat(shared_data, name, split, rows):
    prompts = load(name, split, data_dir=shared_data)
    with Grader(prompts.environment, workers=0) as grader:
        report = validate(prompts, grader)
    assert (report.rows, report.without_gold, report.failures) == (rows, rows, [])


@pytest.mark.slow
def test_math500_is_read_by_columns(shared_data):
    prompts = load("math500", "test", data_dir=shared_data)
    assert len(prompts) == 500 and prompts[3].references["math"].answer == "3"
    whole = {prompt.text for prompt in load("math", "test", data_dir=shared_data)}
    assert all(prompt.text in whole for prompt in prompts)


def test_choices_stand_in_an_order_that_the_question_decides():
    row = load_config("gpqa").sample_row
    prompt = load_sample("gpqa")[0]
    reference = prompt.references["match"]
    assert set(reference.choices) == {row["Correct Answer"], *(row[f"Incorrect Answer {n}"] for n in (1, 2, 3))}
    assert reference.choices["ABCD".index(reference.answer)] == row["Correct Answer"]
    assert f"{reference.answer}) nitrogen" in prompt.text
