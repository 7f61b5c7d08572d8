"""Adapter for lighteval: `metric` grades any task; `tasks` makes lighteval tasks of our data sets or generated tasks.

    # my_tasks.py; then: lighteval accelerate "model_name=..." "verigym:gsm8k|0" --custom-tasks my_tasks.py
    from verigym.adapters import lighteval
    TASKS_TABLE = lighteval.tasks("gsm8k", folder="runs/lighteval", data_dir="data")

lighteval has no value for "no reward", so a missing reward is NaN here. The aggregate `verigym` is the mean of the rewards that
are not NaN, and `verigym_unscored` counts the NaNs. lighteval scores samples one after another, so one worker grades them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verigym.adapters.scoring import Scorer
from verigym.adapters.sources import COLUMN, Sources, SourcesLike, open_held_out
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt
from verigym.envs.contract.session import opens_sessions
from verigym.envs.extras import need

if TYPE_CHECKING:
    import lighteval.metrics.utils.metric_utils
    import lighteval.tasks.lighteval_task

WHAT = "verigym.adapters.lighteval"
REWARD, UNSCORED = "verigym", "verigym_unscored"
PREFIX = "verigym:"
"""Prefix of our tasks' names, since lighteval has a gsm8k of its own. lighteval also averages over tasks of one prefix."""
SPLIT = "test"
GENERATION_TOKENS = 2048
SETTINGS: Mapping[str, Any] = {"workers": 1, "start_timeout_s": 300.0}
"""Default settings of the Grader. The start timeout is long because a worker imports the running script and with it lighteval,
which takes a minute on a busy machine."""


def over_scored(values: Sequence[float]) -> float:
    """Return the mean of `values` without the NaNs, or NaN if all are NaN.

    lighteval estimates the standard error of this aggregate by resampling. If the function's name contained `mean`, lighteval
    would instead use a plain formula, which gives NaN if any value is NaN. So the name must not contain `mean`.
    """
    scored = [one for one in values if not math.isnan(one)]
    return sum(scored) / len(scored) if scored else math.nan


def metric(
    what: SourcesLike | Sources, *, columns: Mapping[str, str | None] | None = None, **settings: Any
) -> lighteval.metrics.utils.metric_utils.SampleLevelMetricGrouping:
    """Return a metric for lighteval's tasks: `verigym` is the reward, `verigym_unscored` counts the texts without a reward.

    The metric reads a document's task from the dictionary `specific` of the document: either from the key `verigym`, which
    `tasks` and `Sources.rows` fill, or from the keys that `columns` maps to the reference. In `columns`, the name `gold` stands
    for the document's first gold.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it.
        columns: maps each field of the reference to the key of `specific` that holds it, or to `gold`.
        settings: keyword arguments of `Scorer`; `SETTINGS` by default.

    Raises:
        UsageError: `Scorer` refuses an argument, an environment has episodes, which lighteval cannot play, or lighteval is not
            installed.
    """
    utils, samples = need("lighteval.metrics.utils.metric_utils", WHAT), need("lighteval.metrics.metrics_sample", WHAT)
    scorer = Scorer(what, columns=columns, **{**SETTINGS, **settings})
    _refuse_episodes(scorer.sources)

    class Verdicts(samples.SampleLevelComputation):  # type: ignore[misc, name-defined]
        """Rewards of verigym's environments."""

        def compute(self, doc: Any, model_response: Any, **more: Any) -> dict[str, float]:
            """Return the reward as `verigym` (NaN if there is none), and `verigym_unscored`: 1.0 if there is none, else 0.0."""
            if len(model_response.text) != 1:
                raise UsageError(f"the metric verigym grades one sample of a document, and got {len(model_response.text)}")
            specific = dict(doc.specific or {})
            golds = doc.get_golds() if doc.choices else []
            row = {**({"gold": golds[0]} if golds else {}), **specific}
            reward = scorer.reward(scorer.score(scorer.task(row, doc.query), model_response.text[0]))
            return {REWARD: math.nan if reward is None else reward, UNSCORED: float(reward is None)}

        def __deepcopy__(self, memo: Any) -> Verdicts:
            """Configurations are copied to be shown; workers are not."""
            return self

        def __str__(self) -> str:
            return repr(scorer)

    made: lighteval.metrics.utils.metric_utils.SampleLevelMetricGrouping = utils.SampleLevelMetricGrouping(
        metric_name=[REWARD, UNSCORED],
        higher_is_better={REWARD: True, UNSCORED: False},
        category=need("lighteval.tasks.requests", WHAT).SamplingMethod.GENERATIVE,
        sample_level_fn=Verdicts(),
        corpus_level_fn={REWARD: over_scored, UNSCORED: sum},
    )
    return made


def tasks(
    what: SourcesLike | Sources,
    *,
    folder: Path | str,
    split: str | None = None,
    count: int | None = None,
    data_dir: Path | str | None = None,
    options: Mapping[str, Any] | None = None,
    generation_size: int = GENERATION_TOKENS,
    **settings: Any,
) -> list[lighteval.tasks.lighteval_task.LightevalTaskConfig]:
    """Return lighteval tasks, one per source, for a `TASKS_TABLE`. Their rows are the held-out rows that `verigym eval` uses.

    Args:
        what: the data set, environment or mixture, as `open_held_out` accepts it.
        folder: where the rows are written, since lighteval reads data sets only from the hub or from a folder.
        split: the split to evaluate; None for the default of `open_held_out`.
        count: maximum number of rows per source; None for all.
        data_dir: folder with the data sets' local files; by default they are read from the Hugging Face hub.
        options: options of the environment, if `what` is a name.
        generation_size: maximum number of tokens in an answer.
        settings: keyword arguments of `Scorer`.

    Raises:
        UsageError: `open_held_out` or `metric` refuses an argument, there are no rows, or a prompt has several turns, which
            lighteval does not support.
    """
    tasking = need("lighteval.tasks.lighteval_task", WHAT)
    sources = open_held_out(what, split=split, count=count, data_dir=data_dir, **(options or {}))
    rows: dict[str, list[dict[str, str]]] = {label: [] for label in sources.environments}
    for row in sources.held_out():
        label, prompt = sources.task(row[COLUMN])
        gold = sources.environments[label].gold(prompt) or ""
        rows[label].append({"query": query_of(prompt), "gold": gold, "source": label, COLUMN: row[COLUMN]})
    if empty := [label for label, some in rows.items() if not some]:
        raise UsageError(f"{', '.join(empty)}: no held-out rows: name a data set, or an environment that generates tasks")
    names = {label: plain_name(label) for label in rows}
    if len(set(names.values())) < len(names):
        raise UsageError(f"two of {', '.join(names)} make one name of lighteval's; give one source a `name`")
    measured = metric(sources, **settings)
    made = []
    for label, some in rows.items():
        place = (Path(folder) / names[label]).absolute()
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{SPLIT}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in some))
        made.append(
            tasking.LightevalTaskConfig(
                name=f"{PREFIX}{names[label]}",
                prompt_function=document,
                hf_repo=str(place),
                hf_subset="default",
                hf_avail_splits=[SPLIT],
                evaluation_splits=[SPLIT],
                metrics=[measured],
                generation_size=generation_size,
                stop_sequence=[],
            )
        )
    return made


def plain_name(label: str) -> str:
    """Return `label`, which may be a path, without the characters that are special in lighteval or in file names."""
    return (
        re.sub(r"[^A-Za-z0-9_.-]+", "_", Path(label).stem if label.endswith((".yaml", ".yml")) else label).strip("._")
        or "tasks"
    )


def document(row: Mapping[str, Any], task_name: str) -> Any:
    """Return a lighteval document made from `row`, a row that `tasks` has written."""
    made = need("lighteval.tasks.requests", WHAT).Doc
    specific = {COLUMN: row[COLUMN], "source": row["source"]}
    return made(task_name=task_name, query=row["query"], choices=[row["gold"]], gold_index=0, specific=specific)


def query_of(prompt: Prompt) -> str:
    """Return `prompt` as one text: lighteval has a single user text, so a system message is put before it.

    Raises:
        UsageError: the prompt has several turns.
    """
    roles = [message.role for message in prompt.messages]
    if roles not in (["user"], ["system", "user"]):
        raise UsageError(f"a prompt has the turns {', '.join(roles)}; lighteval's documents have one text of the user's")
    return "\n\n".join(message.content for message in prompt.messages)


def _refuse_episodes(sources: Sources) -> None:
    if played := [label for label, one in sources.environments.items() if opens_sessions(one)]:
        raise UsageError(
            f"{', '.join(played)}: tasks are episodes of several turns, and lighteval asks once; use `verigym eval` "
            "or inspect_ai"
        )
