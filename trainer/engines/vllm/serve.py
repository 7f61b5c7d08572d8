"""Starts a vLLM server that takes the trainer's weights: `python -m verigym.trainer.engines.vllm.serve MODEL [OPTIONS]`.

MODEL gives architecture and tokenizer; its weights are replaced by the policy's when a run begins. The server accepts requests
and weights only with the key in VLLM_API_KEY. Without a key it starts only on a local address, such as `--host 127.0.0.1`. It
runs in vLLM's Python environment, where verigym must be importable.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Sequence
from importlib import metadata

REFUSED = {
    "--api-key": "set VLLM_API_KEY: the part that takes weights reads the key there",
    "--api-server-count": "one server process knows which weights there are; start several servers, each with its own port",
    "--config": "a file could name any of the other options; give its options here",
    "--logprobs-mode": "the trainer needs log-probabilities of the distribution that is sampled from, processed_logprobs",
}


def command(arguments: Sequence[str]) -> list[str]:
    """Return the command that starts the server.

    Args:
        arguments: the model and options of `vllm serve`.

    Raises:
        SystemExit: `arguments` name no model, contain an option with which the trainer cannot use the server, or let other
            machines reach a server that has no key.
    """
    if not arguments or arguments[0].startswith("-"):
        raise SystemExit("usage: python -m verigym.trainer.engines.vllm.serve MODEL [options of vllm serve]")
    options = [_option(argument) for argument in arguments]
    for option in options:
        for refused, reason in REFUSED.items():
            if option and refused.startswith(option):
                raise SystemExit(f"{refused}: {reason}")
    if not os.environ.get("VLLM_API_KEY"):
        places = [i for i, option in enumerate(options) if option and "--host".startswith(option)]
        if not places or not all(_is_loopback(_value(arguments, i)) for i in places):
            raise SystemExit("set VLLM_API_KEY, or give --host 127.0.0.1: whoever reaches the port could replace the weights")
    middleware = "verigym.trainer.engines.vllm.receiver.Receiver"
    fixed = ["--middleware", middleware, "--api-server-count", "1"]
    fixed += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
    return [sys.executable, "-m", *_entry(), *arguments, *fixed]


def _option(argument: str) -> str:
    # vLLM's parser takes _ for -, and the beginning of a name for the name.
    name = argument.partition("=")[0].replace("_", "-")
    return name if name.startswith("--") and len(name) > 2 else ""


def _value(arguments: Sequence[str], place: int) -> str:
    _, equals, value = arguments[place].partition("=")
    return value if equals else "".join(arguments[place + 1 : place + 2])


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _entry() -> list[str]:
    try:
        metadata.version("vllm")
    except metadata.PackageNotFoundError:
        # The CPU build has another name, and its command fails because it looks for its version under the usual one.
        return ["vllm.entrypoints.openai.api_server", "--model"]
    return ["vllm.entrypoints.cli.main", "serve"]


if __name__ == "__main__":
    line = command(sys.argv[1:])
    os.execv(line[0], line)
