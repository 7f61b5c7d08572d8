"""Prompt templates: the published words, languages, system prompts, examples drawn by hash and never the asked row."""

import importlib

import pytest

from verigym import UsageError
from verigym.cli import main
from verigym.datasets_cfg import load, load_sample
from verigym.datasets_cfg.templates import available_templates, load_template

ROWS = [{"question": f"{i}+1?", "answer": f"so\n#### {i + 1}", "level": i} for i in range(9)]
ASKS = ("environment: math\n", 'environment: math\nquestion: "{question}"\n')


def open_rows(make, tmp_path, *changes, **asked):
    return load(make(ROWS, *changes), "train", data_dir=tmp_path, **asked)


def test_every_template_is_read_and_named_as_its_file():
    assert {"r1-zero", "chat", "maths", "think", "boxed", "base"} <= set(available_templates())
    for name in available_templates():
        template = load_template(name)
        assert template.name == name and template.description
        for language in template.languages:
            assert load_template(f"{name}:{language}").user != template.user or language == "en"
    assert len(load_template("maths").languages) >= 5


def test_r1_zero_is_one_plain_text_that_ends_with_the_assistant(make, tmp_path):
    (message,) = open_rows(make, tmp_path, template="r1-zero")[0].messages
    assert message.role == "user" and message.content.startswith("A conversation between User and Assistant. The user asks")
    assert message.content.endswith("User: 0+1? Put the answer in \\boxed{}. Assistant:")
    assert "<think> reasoning process here </think> <answer> answer here </answer>." in message.content
    assert open_rows(make, tmp_path, template="r1-zero")[0].metadata["plain"] is True


def test_system_prompt_and_bare_question(make, tmp_path):
    system, user = open_rows(make, tmp_path, ASKS, template="boxed")[2].messages
    assert (system.role, user.role, user.content) == ("system", "user", "2+1?")
    assert "\\boxed{}" in system.content


@pytest.mark.parametrize(
    ("language", "word"), [("de", "Denke"), ("fr", "Raisonne"), ("es", "Razona"), ("zh", "请"), ("ja", "順")]
)
def test_languages(make, tmp_path, language, word):
    prompt = open_rows(make, tmp_path, ASKS, template=f"maths:{language}")[2]
    assert prompt.text.startswith("2+1?\n\n" + word) and prompt.text.count("\\boxed{}") == 1


def test_the_verdict_is_the_same_under_every_template():
    for name in [*available_templates(), "maths:zh"]:
        prompts = load_sample("math500", template=name)
        assert prompts.environment.score(prompts[0], prompts.environment.gold(prompts[0])).reward == 1.0


def test_examples_come_by_hash_and_never_the_asked_row(make, tmp_path):
    prompts = open_rows(make, tmp_path, shots=3)
    again = load(tmp_path / "tiny.yaml", "train", data_dir=tmp_path, shots=3, limit=4)
    seen = set()
    for row, prompt in enumerate(prompts):
        assert [message.role for message in prompt.messages] == ["user", "assistant"] * 3 + ["user"]
        asked, *_ = prompt.messages[-1].content.split("?")
        shown = [message.content.split("?")[0] for message in prompt.messages[:-1:2]]
        assert asked == f"{row}+1" and asked not in shown and len(set(shown)) == 3
        for question, answer in zip(prompt.messages[:-1:2], prompt.messages[1::2], strict=True):
            assert answer.content == f"\\boxed{{{int(question.content.split('+')[0]) + 1}}}"
        seen.add(tuple(shown))
    assert len(seen) > 3, "rows have examples of their own"
    assert [prompt.key for prompt in again] == [prompt.key for prompt in prompts[:4]]


def test_examples_show_the_worked_answer(make, tmp_path):
    worked = (
        "environment: math\n",
        'environment: math\ntexts: {steps: {column: answer, before: "####"}}\nworked: "{steps}: {gold}"\n',
    )
    prompt = open_rows(make, tmp_path, worked, template="r1-zero", shots=1)[0]
    assert "Assistant: <think> so: \\boxed{" in prompt.text and "</answer> User: 0+1?" in prompt.text


@pytest.mark.parametrize(
    ("changes", "asked", "message"),
    [
        ((), {"template": "r2"}, "no template is called 'r2'.*known: base, boxed"),
        ((), {"template": "maths:xx"}, "template 'maths' has no language 'xx'"),
        ((), {"shots": 2, "shots_split": "dev"}, "no local file for split 'dev'"),
        (
            (("metadata: [level]", "metadata: [level]\nevaluation_only: [train]"),),
            {"shots": 2},
            "'train' is for evaluation only",
        ),
    ],
)
def test_mistakes_are_named(make, tmp_path, changes, asked, message):
    with pytest.raises(UsageError, match=message):
        open_rows(make, tmp_path, *changes, **asked)


def test_what_a_template_needs_and_the_set_lacks_is_named(make, tmp_path):
    with pytest.raises(UsageError, match="field 'question' is null; template 'maths:de' needs it"):
        open_rows(make, tmp_path, template="maths:de")[0]
    with pytest.raises(UsageError, match="field 'shots' asks for 9 examples, but only 8 rows can be shown"):
        open_rows(make, tmp_path, shots=9)[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name: t\ndescription: d\nuser: '{prompt} {answer}'\n",
            r"t.yaml:3: user names \{answer\}; known: prompt, question",
        ),
        ("name: t\ndescription: d\nuser: hello\n", "user names none of"),
        ("name: t\ndescription: d\nuser: '{{prompt}}'\n", "t.yaml:3: user holds '{{prompt}}', whose outer braces"),
        ("name: t\ndescription: d\nuser: '{prompt}'\nshown: '{ gold }'\n", "t.yaml:4: shown holds '{ gold }', which nothing"),
        ("name: t\ndescription: d\nuser: '{prompt}'\nsystem: '{prompt}'\n", "t.yaml:4: system is the same for every task"),
        ("name: t\ndescription: d\nusr: '{prompt}'\n", "t.yaml:3: unknown field 'usr'; did you mean 'user'"),
        ("name: t\ndescription: d\nlanguages: {de: {user: '{gone}'}}\n", "t.yaml:3: field 'languages.de'"),
    ],
)
def test_a_template_of_yours_is_checked(tmp_path, text, message):
    path = tmp_path / "t.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_template(str(path))


def test_a_row_is_never_read_as_a_template(make, tmp_path):
    rows = [{"question": "{prompt} {gold} {system}?", "answer": "#### 1", "level": 0}, ROWS[1]]
    path = make(rows, ASKS)
    prompt = load(path, "train", data_dir=tmp_path, template="boxed", shots=1)[0]
    assert prompt.messages[-1].content == "{prompt} {gold} {system}?"


def test_a_plain_template_does_not_pass_through_the_chat_template(tiny_tokenizer):
    from verigym.trainer.models.codec import Codec

    codec = Codec(tiny_tokenizer)
    plain, chat = (load_sample("gsm8k", template=name)[0] for name in ("r1-zero", "chat"))
    assert codec.decode(codec.encode(plain)) == plain.text
    assert codec.decode(codec.encode(chat)) != chat.text and tiny_tokenizer.chat_template


def test_an_unknown_template_is_refused_before_any_row_is_read(tmp_path, monkeypatch, capsys):
    module = importlib.import_module("verigym.datasets_cfg.load")  # the package has a function of that name
    monkeypatch.setattr(module, "hub_rows", lambda *_: pytest.fail("the hub was asked"))
    assert main(["datasets", "sample", "gsm8k", "--split", "test", "--template", "nosuch"]) == 2
    assert "no template is called 'nosuch'; known: base, boxed" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no template is called 'nosuch'"):
        load("gsm8k", "train", data_dir=tmp_path / "absent", template="nosuch")
