"""Settings of engines: clashes are refused, and what only says where a server is may change before a run goes on."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from needs import lacking

from verigym.envs.contract.errors import UsageError
from verigym.trainer.checkpoints.store import made_with
from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.engines.build import build_engine
from verigym.trainer.models.codec import Codec


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
        ({"engine": "fast"}, "engine"),
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
