"""Reads a pipeline's file: stages, each with a name, a kind and fields. `stage:NAME` in a field refers to a stage's product."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from verigym.datasets_cfg.yamlfile import Document, Loc, checked, read_document
from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.trainer.config.frozen import Frozen
from verigym.trainer.config.overrides import place_of
from verigym.trainer.config.synonyms import elsewhere
from verigym.trainer.models.path import require_model
from verigym.trainer.pipelines.checks import NOWHERE, models_of, refuse_stage_on_this_machine, refuse_unstartable_stage
from verigym.trainer.pipelines.stage_kinds import KINDS, StageKind
from verigym.trainer.rng import keyed_int

REFERENCE = "stage:"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
OWN_FIELDS = ("name", "kind")
TAKES = {"data": "data", "held_out_data": "data", "sources": "reward model", "pickers": "reward model"}
"""For these fields, the kind of product to which a `stage:NAME` in the field must refer. In all other fields: a model."""


class PipelineFields(Frozen):
    """The top-level fields of a pipeline file."""

    output: Path
    """Folder of all stages and of the manifest."""
    seed: int = 0
    """Key of all randomness. A stage that sets no seed gets one from this key and its name."""
    shared: Any = None
    """Has no effect: a place to define YAML anchors, such as a mixture that several stages use."""
    defaults: Mapping[str, Any] = {}
    """Fields for every stage that has them and does not set them."""
    stages: tuple[Mapping[str, Any], ...] = Field(min_length=1)
    """The stages, in order. Each has a `name`, a `kind` and the fields of its kind."""


@dataclass(frozen=True)
class Stage:
    """A stage as written in the pipeline file."""

    name: str
    kind_name: str
    fields: Mapping[str, Any]
    """Settings of the stage, including the pipeline's defaults and seed. References `stage:NAME` are not resolved."""
    needs: tuple[str, ...]
    """Names of the stages that it refers to."""
    loc: Loc

    @property
    def kind(self) -> StageKind:
        """Return the stage's entry in the table of kinds."""
        return KINDS[self.kind_name]


@dataclass(frozen=True)
class Pipeline:
    """A pipeline file that has been read and checked."""

    document: Document
    output: Path
    seed: int
    stages: tuple[Stage, ...]

    def up_to(self, until: str | None) -> tuple[Stage, ...]:
        """Return the stages up to and including the one named `until`; all if None.

        Raises:
            UsageError: no stage is named `until`.
        """
        names = [stage.name for stage in self.stages]
        if until is not None and until not in names:
            raise UsageError(f"{self.document.name}: no stage is called {until!r}{did_you_mean(until, names)}")
        return self.stages if until is None else self.stages[: names.index(until) + 1]

    def expected(self, stage: Stage) -> BaseModel:
        """Return a stage's settings for checks before any stage runs, with placeholders for the products of other stages.

        Raises:
            UsageError: as `config`.
        """
        return self.config(stage, self.output / stage.name, {name: NOWHERE / name for name in stage.needs})

    def refuse_on_this_machine(self, stage: Stage) -> None:
        """Check that this machine has a stage's device, packages, environments and models.

        Raises:
            UsageError: something is missing; the message names it, the file, the line and the stage.
        """
        with _with_place(self.document, stage):
            config = self.expected(stage)
            refuse_stage_on_this_machine(config)
            for model in models_of(config):  # last: a hub that does not answer takes seconds
                require_model(model)

    def named(self, stage: Stage) -> AbstractContextManager[None]:
        """Return a context in which messages of errors get the file, line and name of `stage` as a prefix."""
        return _with_place(self.document, stage)

    def config(self, stage: Stage, output: Path, products: Mapping[str, Path]) -> BaseModel:
        """Return a stage's settings, with the paths of products in place of references `stage:NAME`.

        Args:
            stage: one of the pipeline's stages.
            output: the stage's folder.
            products: the products of the earlier stages, by name.

        Raises:
            UsageError: a field is unknown or does not fit; the message names file, line and field.
        """
        fields = {**replaced(stage.fields, lambda name: str(products[name])), "output": str(output)}
        return checked(stage.kind.config_type(), fields, self.document, stage.loc, f"stage {stage.name!r}")


def read_pipeline(path: Path, *, losses: bool = True, until: str | None = None) -> Pipeline:
    """Read a pipeline file and check its stages, so that an error in the last stage is found before the first one runs.

    Only settings are checked: names, values, and combinations that a run would refuse before it loads a model.

    Args:
        path: the file.
        losses: as `refuse_unstartable_stage` takes it.
        until: name of the last stage to run; in later stages only name, kind and references are checked.

    Raises:
        UsageError: the file or a stage does not fit; the message is one line that names file, line and field.
    """
    document = read_document(path)
    top = checked(PipelineFields, document.fields, document)
    stages: list[Stage] = []
    for number, fields in enumerate(top.stages):
        stages.append(_stage(document, top, fields, ("stages", number), stages))
    pipeline = Pipeline(document, top.output, top.seed, tuple(stages))
    used = {name for stage in stages for name in stage.fields}
    for name in top.defaults:
        if name not in used:
            known = {field for stage in stages for field in stage.kind.config_type().model_fields}
            hint = elsewhere(name, known) or did_you_mean(name, known)
            raise UsageError(
                f"{document.place(('defaults', name))}: no stage in this file has a field {name!r}{hint}; or leave it out"
            )
    for stage in pipeline.up_to(until):
        config = pipeline.expected(stage)
        with _with_place(document, stage):
            refuse_unstartable_stage(config, losses=losses)
    return pipeline


@contextmanager
def _with_place(document: Document, stage: Stage) -> Iterator[None]:
    """Prefix errors within this context with file, line and stage.

    Raises:
        UsageError: the error with its prefix.
    """
    try:
        yield
    except UsageError as error:
        place = document.place(place_of(stage.fields, str(error), stage.loc) or stage.loc)
        raise UsageError(f"{place}: stage {stage.name!r}: {error}") from None


def _stage(document: Document, top: PipelineFields, fields: Mapping[str, Any], loc: Loc, before: list[Stage]) -> Stage:
    name, kind = fields.get("name"), fields.get("kind")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UsageError(
            f"{document.place((*loc, 'name'))}: field 'name': expected small letters, digits, - and _, at most 40; got {name!r}"
        )
    if any(stage.name == name for stage in before):
        raise UsageError(f"{document.place((*loc, 'name'))}: two stages are called {name!r}; give one another name")
    if not isinstance(kind, str) or kind not in KINDS:
        hint = did_you_mean(str(kind), KINDS)
        raise UsageError(f"{document.place((*loc, 'kind'))}: field 'kind' of stage {name!r} is {kind!r}{hint}")
    if "output" in fields:
        raise UsageError(f"{document.place((*loc, 'output'))}: a stage's folder is the pipeline's affair; leave `output` out")
    known = KINDS[kind].config_type().model_fields
    own = {field: value for field, value in fields.items() if field not in OWN_FIELDS}
    given = {field: value for field, value in top.defaults.items() if field in known}
    whole = {"seed": keyed_int("pipeline", top.seed, name) % 2**31, **given, **own}
    needs = _references(document, name, own, loc, before)
    return Stage(name, kind, whole, needs, loc)


def _references(document: Document, name: str, fields: Mapping[str, Any], loc: Loc, before: list[Stage]) -> tuple[str, ...]:
    found: list[str] = []
    for field, value in fields.items():
        mine: list[str] = []

        def note(other: str, mine: list[str] = mine) -> str:
            mine.append(other)
            return other

        replaced(value, note)
        for other in mine:
            place = document.place((*loc, field))
            target = next((stage for stage in before if stage.name == other), None)
            if target is None:
                hint = did_you_mean(other, [stage.name for stage in before])
                raise UsageError(f"{place}: stage {name!r} refers to {other!r}, and no stage before it is called so{hint}")
            wanted = TAKES.get(field, "model")
            if target.kind.makes != wanted:
                makers = " or ".join(name for name, kind in KINDS.items() if kind.makes == wanted)
                raise UsageError(
                    f"{place}: field {field!r} takes the {wanted} of a stage of kind {makers}; stage {other!r} is of kind "
                    f"{target.kind_name!r} and makes a {target.kind.makes}"
                )
        found.extend(mine)
    return tuple(dict.fromkeys(found))


def replaced(value: Any, product: Callable[[str], str]) -> Any:
    """Return `value` with each text `stage:NAME` in it, at any depth, replaced by `product(NAME)`."""
    if isinstance(value, str) and value.startswith(REFERENCE):
        return product(value.removeprefix(REFERENCE))
    if isinstance(value, Mapping):
        return {key: replaced(inner, product) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [replaced(inner, product) for inner in value]
    return value
