"""`verigym play`: takes the model's part in an episode, by hand or with a script."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verigym.cli.common import completion
from verigym.cli.common.json_output import Json, Result, json_output
from verigym.cli.common.options import EnvironmentOptions
from verigym.exit_codes import ExitCode

if TYPE_CHECKING:
    from verigym.envs import Message, Prompt

END_OF_TURN = "."


@json_output
def play(
    env: Annotated[
        str,
        typer.Argument(
            metavar="ENV", help="Name of the environment; `verigym envs` lists them.", autocompletion=completion.environments
        ),
    ],
    option: EnvironmentOptions = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            help="A tool that the model may call: calculator, python or module:attribute. May be repeated.",
            autocompletion=completion.words("calculator", "python"),
        ),
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="The task, where the environment generates none.")] = None,
    reference: Annotated[list[str] | None, typer.Option(help="FIELD=VALUE of the task's reference. May be repeated.")] = None,
    split: Annotated[str, typer.Option(help="Split of a generated task.")] = "train",
    seed: Annotated[int, typer.Option(help="Seed of a generated task, and of the episode.")] = 0,
    index: Annotated[int, typer.Option(min=0, help="Number of a generated task.")] = 0,
    script: Annotated[
        str | None,
        typer.Option(
            help="A JSON file with the list of the model's turns, or module:function, which gets the messages so far."
        ),
    ] = None,
    max_turns: Annotated[int, typer.Option(min=1, help="Turns of the model, at most.")] = 20,
    out: Annotated[
        Path | None, typer.Option(help="Append the episode as a line of JSON, for `verigym grade` and for reading.")
    ] = None,
    as_json: Json = False,
) -> Result:
    """Play an episode yourself, in the place of the model, and print the verdict.

    When you type turns by hand, a line that holds only a full stop ends a turn, and so does the end of input.
    """
    from verigym.cli.common.values import pairs
    from verigym.envs import UsageError, run_episode
    from verigym.envs.contract.session import TOOLS
    from verigym.envs.registry import load_usable
    from verigym.envs.tools.environment import ToolEnvironment
    from verigym.envs.tools.named import load_tools

    environment: Any = load_usable(env, **pairs(option or [], "--option"))
    if tool:
        environment = ToolEnvironment(environment, load_tools({name: {} for name in tool}))
    task = _task(environment, prompt, pairs(reference or [], "--reference"), split, seed, index)
    policy = _by_hand() if script is None else _scripted(script)
    for message in task.messages:
        _show(message.role, message.content)
    tools: Any = task.metadata.get(TOOLS) or ()
    for spec in tools:
        print(f"[tool] {json.dumps(spec['function'])}")
    shown = len(task.messages)

    def told(messages: Sequence[Message]) -> str:
        nonlocal shown
        for message in messages[shown:]:
            if message.role != "assistant" or script is not None:
                _show(message.name or message.role, message.content)
        shown = len(messages)
        text: str = policy(messages)
        return text

    try:
        episode = run_episode(environment, task, told, seed=str(seed), max_turns=max_turns)
    except StopIteration:
        raise UsageError("the turns are over before the episode is; give the script more, or set --max-turns lower") from None
    for turn in episode.turns[shown - len(task.messages) :]:
        if turn.role != "assistant" or script is not None:
            _show(turn.name or turn.role, turn.text)
    score = environment.score(task, episode)
    row = {"prompt": [message.model_dump() for message in task.messages], **_columns(task)}
    row |= {"completion": episode.model_dump(mode="json"), "score": score.model_dump(mode="json")}
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    print(f"ended by {episode.finish_reason}; outcome {json.dumps(episode.outcome)}")
    print(f"{score.status.value}: reward {score.reward}" + (f" ({score.reason})" if score.reason else ""))
    return Result(ExitCode.OK if score.scored else ExitCode.FAILED, row)


def _columns(task: Prompt) -> dict[str, Any]:
    """Return a task's reference as `verigym grade` reads it: its fields; of several parts, each below the part's name."""
    parts = {part: one.model_dump(mode="json", exclude_defaults=True) for part, one in task.references.items()}
    return next(iter(parts.values())) if len(parts) == 1 else parts


def _task(environment: Any, prompt: str | None, reference: dict[str, Any], split: str, seed: int, index: int) -> Prompt:
    from verigym.envs import UsageError
    from verigym.envs.composition.base import generates_tasks
    from verigym.grade.reading.columns import nested

    if prompt is not None:
        made: Prompt = environment.prompt(prompt, **nested(reference))
        return made
    if reference:
        raise UsageError("--reference is about a task of yours: give its text with --prompt")
    if not generates_tasks(environment):
        raise UsageError(f"{environment.name!r} generates no tasks: give one with --prompt TEXT and --reference FIELD=VALUE")
    made = environment.prompt_at(split, seed, index)
    return made


def _by_hand() -> Any:
    def policy(messages: Sequence[Message]) -> str:
        print(f"[you] end the turn with a line that holds only {END_OF_TURN!r}", file=sys.stderr)
        lines: list[str] = []
        for line in sys.stdin:
            if line.rstrip("\n") == END_OF_TURN:
                return "\n".join(lines)
            lines.append(line.rstrip("\n"))
        if not lines:
            raise StopIteration
        return "\n".join(lines)

    return policy


def _scripted(script: str) -> Any:
    """Return the policy of a script.

    Raises:
        UsageError: it is neither a JSON file of texts nor a function.
    """
    from verigym.envs import UsageError, strict_json
    from verigym.envs.contract.blame import describe
    from verigym.envs.registry import import_own

    module, separator, attribute = script.partition(":")
    if separator and not Path(script).exists():
        try:
            return getattr(import_own(module), attribute)
        except Exception as error:
            raise UsageError(f"--script {script}: {describe(error)}") from None
    try:
        turns = strict_json.loads(Path(script).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--script {script}: {error}; expected a JSON list of texts, or module:function") from None
    if not isinstance(turns, list) or not all(isinstance(turn, str) for turn in turns):
        raise UsageError(f"--script {script}: expected a JSON list of texts, one for each turn of the model")
    left: Iterator[str] = iter(turns)
    return lambda messages: next(left)


def _show(who: str, text: str) -> None:
    print(f"[{who}] {text}")
