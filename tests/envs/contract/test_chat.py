"""Chat messages enter the contract as texts do: as prompts, as completions, and in the reward function that TRL calls."""

import pytest
from sample_envs import ExactEnvironment, FlakyEnvironment, PoliteEnvironment

from verigym.envs import AllOf, Completion, Grader, Message, reward_function
from verigym.envs.contract.schema import as_messages


def said(content, **more):
    return {"role": "assistant", "content": content, **more}


USER = {"role": "user", "content": "q"}


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([said("answer: 4")], "answer: 4"),
        ((said("answer: 4"),), "answer: 4"),
        ([said("")], ""),
        ([said("answer: 4", tool_calls=None, name=None)], "answer: 4"),
        ([said("answer: 4", tool_calls=[], reasoning_content="hm")], "answer: 4"),
        ([said([{"type": "text", "text": "answer:"}, {"type": "text", "text": " 4"}])], "answer: 4"),
        ([USER, said("first"), USER, said("answer: 4")], "answer: 4"),
        ([Message(role="assistant", content="answer: 4")], "answer: 4"),
    ],
)
def test_messages_are_the_text_of_the_assistant(messages, text):
    assert Completion.of(messages) == Completion(text=text)


CALL = {"type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}}
RESULT = {"role": "tool", "name": "add", "content": "answer: 3"}


def test_messages_with_tools_are_an_episode():
    episode = Completion.of([USER, said(None, tool_calls=[CALL]), RESULT, said("answer: 4")])
    assert (episode.text, episode.finish_reason) == ("answer: 4", None)
    assert [(turn.role, turn.text, turn.name) for turn in episode.turns] == [
        ("assistant", "", None),
        ("tool", "answer: 3", "add"),
        ("assistant", "answer: 4", None),
    ]
    assert [(call.name, call.arguments, call.fault) for call in episode.turns[0].calls] == [("add", {"x": 1}, None)]
    env = ExactEnvironment()
    assert env.score(env.prompt("q", answer="4"), episode).reward == 1.0
    assert env.score(env.prompt("q", answer="3"), episode).reward == 0.0


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"name": "add", "arguments": {"x": 1}}, ("add", {"x": 1}, None)),
        ({"function": {"name": "add", "arguments": "{"}}, ("add", {}, "json")),
        ({"function": {"name": "add", "arguments": "[1]"}}, ("add", {}, "json")),
        ({"function": {"arguments": "{}"}}, ("", {}, "json")),
        ("add", ("", {}, "json")),
    ],
)
def test_calls_of_a_chat_api(call, expected):
    cut_off = Completion.of([said("Let me see.", tool_calls=[call]), RESULT])
    (made,) = cut_off.turns[0].calls
    assert (made.name, made.arguments, made.fault) == expected
    assert (cut_off.text, cut_off.finish_reason) == ("Let me see.", "turns")


def test_a_model_that_only_calls_tools_has_said_nothing():
    """One such message among a trainer's completions must not end its run."""
    with reward_function(ExactEnvironment(), workers=0) as reward:
        completions = [[said(None, tool_calls=[CALL])], [said("answer: 4")], [said(None, tool_calls=[CALL]), RESULT]]
        assert reward(prompts=["q"] * 3, completions=completions, answer=["4"] * 3) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("messages", "error", "why"),
    [
        ([], ValueError, "an empty list of messages; expected"),
        (["answer: 4"], TypeError, "message 0 of the completion: str 'answer: 4'; expected a message"),
        ([said(None)], ValueError, "message 0 of the completion: no content"),
        ([{"role": "assistant"}], ValueError, "no content"),
        ([{"content": "4"}], ValueError, r"a message without a role \(it has \['content'\]\)"),
        ([{"role": "tool", "content": "4"}], ValueError, "begins with a message of 'tool'; expected the assistant's"),
        ([USER | {"tool_calls": [{"name": "f"}]}], ValueError, "tool calls; only a completion's last messages"),
        ([said(None, tool_calls=[{"name": "f"}]), {"role": "tool"}], ValueError, "message 1 of the completion: no content"),
        ([said("one"), said("two")], ValueError, "several messages of the assistant in a row"),
        ([said("one"), USER], ValueError, "ends with a message of 'user'"),
        ([said(5)], ValueError, "content is int 5; expected text or a list of text parts"),
        ([said([{"type": "image"}])], ValueError, "message 0 of the completion, part 0: a part of type 'image'"),
        ([said(["text"])], ValueError, "part 0: str 'text'"),
    ],
)
def test_other_messages_are_refused_by_name(messages, error, why):
    env = ExactEnvironment()
    prompt = env.prompt("q", answer="4")
    with pytest.raises(error, match=why):
        env.score(prompt, messages)
    with Grader(env, workers=0) as grader, pytest.raises(error, match=why):
        grader.submit(prompt, messages)


def test_prompts_of_messages():
    made = as_messages(
        [{"role": "system", "content": "s", "name": None}, {"role": "user", "content": [{"type": "text", "text": "u"}]}]
    )
    assert made == (Message(role="system", content="s"), Message(role="user", content="u"))
    env = ExactEnvironment()
    assert env.prompt([USER], answer="4") == env.prompt("q", answer="4")
    both = AllOf([env, PoliteEnvironment()])
    assert both.prompt([USER], exact={"answer": "4"}) == both.prompt("q", exact={"answer": "4"})
    with pytest.raises(ValueError, match="message 1 of the prompt: role 'tool'"):
        env.prompt([USER, {"role": "tool", "content": "x"}], answer="4")
    with pytest.raises(ValueError, match="an empty list of messages"):
        env.prompt([], answer="4")
    with pytest.raises(TypeError, match="not of int: 5"):
        env.prompt(5, answer="4")


def as_trl_calls(reward, prompts, texts, *, chat, **columns):
    """Call a reward function as GRPOTrainer does: by keywords, the data set's columns and the trainer's own among them."""
    completions = [[said(text)] for text in texts] if chat else texts
    ids = [[1, 2, 3]] * len(texts)
    asked = [[{"role": "user", "content": text}] for text in prompts] if chat else prompts
    return reward(prompts=asked, completions=completions, completion_ids=ids, **columns, trainer_state=None, log_metric=None)


@pytest.mark.parametrize("chat", [False, True])
def test_the_reward_function_takes_texts_and_chats(chat):
    with reward_function(ExactEnvironment(), workers=1) as reward:
        found = as_trl_calls(reward, ["q", "q", "r"], ["answer: 4", "answer: 5", ""], chat=chat, answer=["4", "4", "5"])
    assert found == [1.0, 0.0, 0.0] and all(type(one) is float for one in found)


@pytest.mark.parametrize("chat", [False, True])
def test_its_reward_for_a_failure_of_ours_is_none(chat, tmp_path):
    env = FlakyEnvironment(folder=str(tmp_path), failures=1, retryable=False)
    with reward_function(env, workers=1) as reward:
        assert as_trl_calls(reward, ["q"], ["answer: 4"], chat=chat, answer=["4"]) == [None]
        assert as_trl_calls(reward, ["q"], ["answer: 4"], chat=chat, answer=["4"]) == [1.0]
