"""The bridge against real templates of Qwen and against the package renderers, token for token.

Neither is part of the project: both are fetched from the package index into a temporary folder. The tokenizer is built as
Qwen's are, but trained here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from needs import lack
from patience import HANG_S
from qwen_like import qwen_like_tokenizer
from tokenizers import AddedToken

from verigym import Message, UsageError, load, tool
from verigym.envs.contract.session import with_tools
from verigym.trainer.models.bridge import Bridge
from verigym.trainer.models.codec import Codec

pytestmark = pytest.mark.slow
RENDERERS = "renderers==0.1.12"
TEMPLATES = ("qwen3", "qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "qwen3_8")
KEEP_THINKING = ("qwen3_training", "qwen3_5_think_training")
"""Variants by TRL that rewrite fewer turns; renderers has none of them."""
SCRIPT = Path(__file__).parents[1] / "support" / "renderers_bridge.py"
END, OTHER_END, CUT = "<|im_end|>", "<|endoftext|>", ""


@tool
def lookup(word: str, limit: int = 3) -> str:
    """Find a word in the glossary."""
    return word[:limit]


@tool
def now() -> str:
    """Tell the time."""
    return "12:00"


TOOLS = [lookup.spec.for_template(), now.spec.for_template()]


@dataclass
class Turn:
    text: str
    replies: list[Message]
    thinking: str = ""
    end: str = END
    open_thinking: bool = False


@dataclass
class Conversation:
    kind: str
    turns: list[Turn]
    template: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """Those after the prompt, with the thinking apart, as templates take it."""
    prompt_ids: list[int] = field(default_factory=list)
    written: list[list[int]] = field(default_factory=list)
    inputs: list[list[int]] = field(default_factory=list)


PROMPT = [Message(role="system", content="Answer briefly."), Message(role="user", content="What is an ion?\n\nSay it.")]
CALL = '<tool_call>\n{"name": "lookup", "arguments": {"word": "%s"}}\n</tool_call>'
WORDS = ("ion", "\n\nion é", "a  b\t")
"""Words that stand at the edges of texts: a plain one, and such as merge with what is beside them."""


def told(*contents: str) -> list[Message]:
    return [Message(role="tool", name="lookup", content=content) for content in contents]


def user(content: str) -> list[Message]:
    return [Message(role="user", content=content)]


def conversations() -> Iterator[Conversation]:
    for word in WORDS:
        thought = f"I look up {word}".strip()
        call = Turn(CALL % word.strip(), told(f"{word}: an atom{word}"))
        parallel = Turn(f"{CALL % 'a'}\n{CALL % 'b'}", told(word, "", "b\n"))
        asked = Turn(f"Which one?{word}", user(f"{word}that one"))
        yield Conversation("one tool", [call])
        yield Conversation("parallel calls", [parallel])
        yield Conversation("a reply of the user", [asked])
        yield Conversation("several turns", [call, parallel, call, asked, call])
        yield Conversation("thinking", [Turn(call.text, call.replies, thought), Turn(call.text, call.replies, "Again.")])
        yield Conversation(
            "thinking, and a reply of the user",
            [Turn(asked.text.strip(), asked.replies, thought), Turn(call.text, call.replies, "Now.")],
        )
        yield Conversation("a turn that was cut off", [Turn(f"An ion is{word}", asked.replies, end=CUT), call])
        yield Conversation("cut off while thinking", [Turn("", asked.replies, f"An{word}", CUT, open_thinking=True)])
        yield Conversation("another end token", [Turn(call.text, call.replies, end=OTHER_END)])


def written_text(turn: Turn, opening: str) -> tuple[str, str]:
    """What the model writes after the generation prompt, which has opened its thinking or not; and what it thinks."""
    opened = opening.endswith("<think>\n")
    before = "" if opened else "<think>\n"
    if turn.open_thinking:
        return before + turn.thinking, ""
    thinking = turn.thinking or ("Well." if opened else "")
    return (f"{before}{thinking}\n</think>\n\n{turn.text}" if thinking else turn.text), thinking


def play(conversation: Conversation, codec: Codec, opening: str) -> None:
    bridge = Bridge(codec)
    prompt = with_tools(load("format").prompt(PROMPT), [lookup.spec, now.spec])
    ids = conversation.prompt_ids = [*codec.encode(prompt)]
    for turn in conversation.turns:
        text, thinking = written_text(turn, opening)
        written = [*codec.encode_text(text), *codec.encode_text(turn.end)]
        read = bridge.after(written, turn.replies, TOOLS)
        ids = [*ids, *written, *read]
        conversation.messages.append({"role": "assistant", "content": turn.text if thinking else text})
        conversation.messages[-1] |= {"reasoning_content": thinking} if thinking else {}
        conversation.messages += [reply.model_dump() for reply in turn.replies]
        conversation.written.append(written)
        conversation.inputs.append(ids)


def run(command: Sequence[str], **more: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False, **more)
    if done.returncode:
        raise OSError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{command[0]} failed")
    return done.stdout


@pytest.fixture(scope="session")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with renderers and what it needs in `renderers`."""
    folder = tmp_path_factory.mktemp("peers")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--retries", "1", "--timeout", "20"]
    try:
        # renderers imports httpx, which it has from openai, whose newer versions have none
        run([*pip, "install", "--target", str(folder / "renderers"), RENDERERS, "httpx"])
    except (OSError, subprocess.TimeoutExpired) as error:
        lack("packages", error)
    return folder


Played = list[tuple[Conversation, Codec]]


@pytest.fixture(scope="session")
def played(peers: Path, real_templates: dict[str, str]) -> Played:
    """Each conversation with each template, as the bridge has it."""
    templates = {name: real_templates[name] for name in (*TEMPLATES, *KEEP_THINKING)}
    result = []
    for name, template in templates.items():
        tokenizer = qwen_like_tokenizer([*templates.values(), *WORDS * 9], template, 1500)
        tokenizer.save_pretrained(peers / "tokenizer")
        codec = Codec(tokenizer)
        Bridge(codec).check(TOOLS)
        opening = codec.render([{"role": "user", "content": "x"}], None).partition("assistant\n")[2]
        for one in conversations():
            one.template = name
            play(one, codec, opening)
            result.append((one, codec))
    return result


def case_of(one: Conversation) -> dict[str, Any]:
    """The conversation as the script reads it: what the bridge had before each turn, what was written, and the replies."""
    before = [one.prompt_ids, *one.inputs[:-1]]
    return {
        "template": one.template,
        "tools": TOOLS,
        "prompt": [message.model_dump() for message in PROMPT],
        "turns": [
            {"input": ids, "written": written, "replies": [reply.model_dump() for reply in turn.replies]}
            for ids, written, turn in zip(before, one.written, one.turns, strict=True)
        ],
    }


def test_renderers_has_the_same_tokens(peers: Path, played: Played) -> None:
    """All of them but for two kinds of turns, in which it differs by one token and for a reason."""
    both = [(one, codec) for one, codec in played if one.template in TEMPLATES]
    lines = [json.dumps(case_of(one)) for one, _ in both]
    command = [sys.executable, str(SCRIPT), str(peers / "renderers"), str(peers / "tokenizer")]
    answers = [json.loads(answer) for answer in run(command, input="\n".join(lines)).splitlines()]
    same: Counter[str] = Counter()
    for (one, codec), theirs in zip(both, answers, strict=True):
        end, close = codec.encode_text(f"{END}</think>")
        assert theirs[0] == one.prompt_ids, one.template
        differs = [ours != other for ours, other in zip(one.inputs, theirs[1:], strict=True)]
        same[one.kind] += not any(differs)
        if one.kind == "another end token":  # it takes any end for the turn's; ours adds the one that the template writes
            assert without_first_extra(one.inputs[0], theirs[1]) == (end, theirs[1])
        elif one.kind == "cut off while thinking":  # it writes that the thinking ends, which the model did not
            assert without_first_extra(theirs[1], one.inputs[0]) == (close, one.inputs[0])
        else:
            assert not any(differs), f"{one.kind}, {one.template}"
    each = len(TEMPLATES) * len(WORDS)
    assert same.pop("another end token") == same.pop("cut off while thinking") == 0
    assert set(same.values()) == {each}
    assert (each, same.total()) == (15, 105)


def without_first_extra(longer: Sequence[int], shorter: Sequence[int]) -> tuple[int, Sequence[int]]:
    """Return the first token that the longer one has and the other has not, and the longer one without it."""
    place = next(place for place, token in enumerate(longer) if place == len(shorter) or token != shorter[place])
    return longer[place], [*longer[:place], *longer[place + 1 :]]


def test_the_whole_text_has_the_same_tokens_where_the_template_extends(played: Played) -> None:
    """Where the text of the whole conversation is the same, so are its tokens.

    It is another where the template rewrites a turn of the model: drops its thinking once the user replies, puts an empty
    thinking before it, trims it, or ends it with its own end token alone.
    """
    extends: Counter[str] = Counter()
    for one, codec in played:
        whole = codec.render([*(message.model_dump() for message in PROMPT), *one.messages], TOOLS)
        if codec.tokenizer.decode(one.inputs[-1]) == whole:
            extends[one.kind] += 1
            assert codec.encode_text(whole) == tuple(one.inputs[-1]), f"{one.kind}, {one.template}"
    assert extends == {
        "one tool": 18,
        "parallel calls": 18,
        "thinking": 18,
        "thinking, and a reply of the user": 9,
        "a reply of the user": 7,
        "several turns": 7,
        "a turn that was cut off": 7,
        "cut off while thinking": 3,
    }
    assert (extends.total(), len(played)) == (87, 189)


PASS = (
    "qwen2_5 qwen3 qwen3_5_nothink qwen3_5_think qwen3_6 qwen3_8 qwen3_instruct_2507 qwen3_vl "
    "glm4moe gptoss lfm2 lfm2_2_5 llama3_1 llama3_2 nemotron_3_nano nemotron_3_super"
).split()
PASS_WITHOUT_TOOLS = "qwen2_5_vl gemma gemma3 gemma4 phi3 phi3_5 deepseekv3".split()
MARKUP = re.compile(r"<\|?[^<>\s'\"{}]+\|?>|<\uff5c[^<>]+\uff5c>")


@pytest.mark.parametrize("name", [*PASS, *PASS_WITHOUT_TOOLS])
def test_which_templates_pass(real_templates: dict[str, str], name: str) -> None:
    template = real_templates[name]
    tokenizer = qwen_like_tokenizer([template], template)
    marks = sorted(set(MARKUP.findall(template)) - set(tokenizer.get_added_vocab()))
    tokenizer.add_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    bridge = Bridge(Codec(tokenizer))
    bridge.check()
    if name in PASS:
        bridge.check(TOOLS)
    else:
        with pytest.raises(UsageError, match="of tools in the prompt|of a tool's reply"):
            bridge.check(TOOLS)
