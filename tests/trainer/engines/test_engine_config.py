"""Engines and their settings: one table entry adds an engine, clashes are refused, and addresses may change on resume."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Self

import pytest
from needs import lacking

from verigym.envs.contract.errors import UsageError
from verigym.trainer.checkpoints.store import made_with
from verigym.trainer.config.checks import RUN_RULES
from verigym.trainer.config.engine import ENGINES, EngineEntry, EngineFields
from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.distributed.world import refuse_alone
from verigym.trainer.engines.base import Engine, Generated, OnFinished
from verigym.trainer.engines.build import build_engine
from verigym.trainer.models.codec import Codec
from verigym.trainer.preflight import refuse_on_this_machine


def config(**more: Any) -> TrainConfig:
    return build_config({"model": "m", "output": "o", "sources": [{"environment": "arithmetic"}], **more}, "run.yaml")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"engine": "vllm-server"}, "engine vllm-server and vllm_urls go together"),
        ({"vllm_urls": ["http://a:1"]}, "engine vllm-server and vllm_urls go together"),
        ({"engine": "vllm-server", "vllm_urls": ["a:1"]}, "'a:1' is not the address of a server; expected http://HOST:PORT"),
        ({"engine": "vllm-server", "vllm_urls": ["http://a:1/?b"]}, "is not the address of a server"),
        ({"engine": "vllm-server", "vllm_urls": ["http://a:1", "http://a:1"]}, "names a server twice"),
        ({"engine": "vllm-server", "vllm_urls": ["http://a:1", "http://a:1/"]}, "names a server twice"),
        ({"engine": "vllm-server", "vllm_urls": ["http://me:hidden@a:1"]}, "put the servers' key where vllm_api_key_env says"),
        ({"engine": "fast"}, "there is no engine 'fast'; known: native, transformers, vllm, vllm-server"),
        ({"engine": "nativ"}, "there is no engine 'nativ'; did you mean 'native'"),
        ({"vllm_url": "http://a:1"}, "vllm_urls"),
    ],
)
def test_clashes_are_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match="run.yaml") as raised:
        config(**fields)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "hidden" not in str(raised.value)


def test_a_run_may_go_on_with_other_servers_but_not_with_another_engine() -> None:
    server: dict[str, Any] = {"engine": "vllm-server", "vllm_urls": ["http://a:1"]}
    identity = made_with(config(**server), {})
    assert made_with(config(**{**server, "vllm_urls": ["http://b:2"], "vllm_wait_s": 1}), {}) == identity
    assert made_with(config(), {}) != identity


@lacking("elsewhere", importlib.util.find_spec("vllm") is not None, "vLLM is installed here")
def test_without_vllm_the_message_says_what_to_install(policy: Any, codec: Codec) -> None:
    with pytest.raises(UsageError, match=r"engine: vllm cannot be imported .*pip install 'verigym\[vllm\]'"):
        build_engine(config(engine="vllm"), policy, codec)


class EmptyEngine:
    """Answers every prompt with one token."""

    def __init__(self, token: int) -> None:
        self.token = token

    @classmethod
    def from_config(cls, config: TrainConfig, model: Any, codec: Codec) -> Self:
        return cls(min(codec.eos_ids))

    def sync(self) -> None:
        pass

    def rest(self) -> None:
        pass

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        row_keys: Sequence[Sequence[tuple[object, ...]]],
        *,
        max_new_tokens: int,
        temperature: float,
        on_finished: OnFinished,
    ) -> list[list[Generated]]:
        return [[Generated((self.token,), (0.0,), "stop") for _ in keys] for keys in row_keys]

    def close(self) -> None:
        pass


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Register `EmptyEngine` as engine "empty", in a module of its own, by its entry in the table alone."""

    def add(**entry: Any) -> None:
        module: Any = ModuleType("empty_engine")
        module.EmptyEngine = EmptyEngine
        monkeypatch.setitem(sys.modules, "empty_engine", module)
        monkeypatch.setitem(ENGINES, "empty", EngineEntry("empty_engine:EmptyEngine", "ends at once", "here", **entry))  # type: ignore[arg-type]

    return add


def test_an_entry_in_the_table_is_all_that_an_engine_needs(added: Callable[..., None], policy: Any, codec: Codec) -> None:
    added()
    engine: Engine = build_engine(config(engine="empty"), policy, codec)
    ((done,),) = engine.generate([(1,)], [[("key",)]], max_new_tokens=4, temperature=1.0, on_finished=lambda *_: None)
    assert done.token_ids == (min(codec.eos_ids),)
    refuse_on_this_machine(config(engine="empty"))
    with pytest.raises(UsageError, match="engine: empty works in one process only"):
        refuse_alone(config(engine="empty"))


def test_the_entry_says_whether_processes_may_share_and_which_package_is_needed(added: Callable[..., None]) -> None:
    added(distributed=True, package="vllm")
    refuse_alone(config(engine="empty"))
    if importlib.util.find_spec("vllm") is None:
        with pytest.raises(UsageError, match=r"engine: empty is not installed here; pip install 'verigym\[vllm\]'"):
            refuse_on_this_machine(config(engine="empty"))


def test_required_settings_of_the_table_are_required(added: Callable[..., None]) -> None:
    added(required=("vllm_urls",))
    with pytest.raises(UsageError, match="vllm_urls go together"):
        config(engine="empty")
    assert config(engine="empty", vllm_urls=["http://a:1"]).engine == "empty"


def test_every_setting_of_an_engine_belongs_to_entries_of_the_table() -> None:
    listed = {name for entry in ENGINES.values() for name in (*entry.settings, *entry.required)}
    assert listed <= set(TrainConfig.model_fields)
    assert set(EngineFields.model_fields) - {"engine"} <= listed
    assert {name for entry in ENGINES.values() for name in entry.settings} <= {
        name for names, _, _ in RUN_RULES for name in names
    }
