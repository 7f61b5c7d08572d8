"""All calls of vLLM's Python interface (version 0.32) in the trainer's process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from verigym.envs.contract.errors import UsageError
from verigym.trainer.engines.base import Generated
from verigym.trainer.engines.sampling import Parameter
from verigym.trainer.engines.weights import DTYPES, policy_weights, write_weights
from verigym.trainer.models.lora import plain_config

VLLM_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def prepare_environment(by_reference: bool) -> None:
    """Set the environment variables that vLLM reads when it is imported.

    Args:
        by_reference: True if vLLM reads the policy's tensors directly; it must then run in this process.
    """
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # our threads stay as they are
    if by_reference:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    else:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")


class Vllm:
    """vLLM's engine in this process, without a tokenizer: tokens in, tokens out."""

    def __init__(self, model: Any, *, dtype: str, sleep: bool, tensor_parallel_size: int, **options: Any) -> None:
        """Start vLLM.

        Args:
            model: the policy; `load` takes its weights.
            dtype: dtype of vLLM's weights, a key of VLLM_DTYPES.
            sleep: whether the method `sleep` can release memory.
            tensor_parallel_size: number of GPUs that share each layer; above 1, each GPU has its own process.
            **options: further engine arguments of vLLM.

        Raises:
            UsageError: vLLM is not installed here, or refuses the model or an option.
        """
        self.by_reference = tensor_parallel_size == 1
        prepare_environment(self.by_reference)
        try:
            import vllm
        except ImportError as error:
            line = " ".join(str(error).split())[:200]
            raise UsageError(f"engine: vllm cannot be imported ({line}); pip install 'verigym[vllm]'") from None
        self._vllm = vllm
        self.model = model
        self.dtype = DTYPES[dtype]
        set_num_threads = torch.set_num_threads
        try:
            with tempfile.TemporaryDirectory(prefix="verigym-") as folder:
                if not self.by_reference:  # the loader of dummy weights could not read files later
                    write_weights(model, Path(folder, "weights"), self.dtype)
                    folder = str(Path(folder, "weights"))
                plain_config(model.config).save_pretrained(folder)
                self.llm = vllm.LLM(
                    model=folder,
                    load_format="dummy" if self.by_reference else "auto",
                    skip_tokenizer_init=True,
                    dtype=VLLM_DTYPES[dtype],
                    enable_sleep_mode=sleep,
                    tensor_parallel_size=tensor_parallel_size,
                    logprobs_mode="processed_logprobs",  # of the distribution that is sampled from
                    generation_config="vllm",
                    disable_log_stats=True,
                    **options,
                )
        except (ValueError, RuntimeError, NotImplementedError) as error:
            line = " ".join(str(error).split())[:400]
            raise UsageError(f"engine: vllm {vllm.__version__} does not start: {line}") from None
        finally:
            torch.set_num_threads = set_num_threads  # which its CPU worker takes away
        self.engine = self.llm.llm_engine

    def load(self) -> None:
        """Load the policy's weights and empty the prefix cache."""
        if self.by_reference:
            self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": policy_weights(self.model)})
        else:
            shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
            with tempfile.TemporaryDirectory(prefix="verigym-", dir=shared_memory) as folder:
                write_weights(self.model, Path(folder, "weights"), self.dtype)
                self.llm.collective_rpc("reload_weights", kwargs={"weights_path": str(Path(folder, "weights"))})
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("vLLM kept a part of its prefix cache: a completion is still being sampled")

    def sleep(self) -> None:
        """Discard weights and cache and release their memory."""
        self.llm.sleep(level=2)

    def wake(self, what: str) -> None:
        """Allocate again the memory named by `what`: `weights` before weights are loaded, `kv_cache` afterwards."""
        self.llm.wake_up(tags=[what])

    def add(self, name: str, prompt: Sequence[int], parameters: Mapping[str, Parameter]) -> None:
        """Queue one completion."""
        kind = self._vllm.sampling_params.RequestOutputKind.FINAL_ONLY
        params = self._vllm.SamplingParams(**parameters, detokenize=False, output_kind=kind)
        self.engine.add_request(name, {"type": "token", "prompt_token_ids": list(prompt)}, params)

    def step(self) -> list[tuple[str, Generated]]:
        """Sample one token of each running completion, and return the completions that ended, as pairs (name, completion)."""
        return [(out.request_id, _generated(out.outputs[0])) for out in self.engine.step() if out.finished]

    def abort(self, names: Sequence[str]) -> None:
        """Abort completions; unknown names are ignored."""
        self.engine.abort_request(list(names))

    def close(self) -> None:
        """End vLLM's processes and release its memory."""
        self.engine.engine_core.shutdown()
        del self.engine, self.llm


def _generated(output: Any) -> Generated:
    tokens = tuple(output.token_ids)
    if output.finish_reason not in ("stop", "length") or len(output.logprobs or ()) != len(tokens):
        raise RuntimeError(f"vLLM ended a completion with {output.finish_reason!r} and {len(output.logprobs or ())} logprobs")
    logprobs = tuple(float(candidates[token].logprob) for token, candidates in zip(tokens, output.logprobs, strict=True))
    return Generated(tokens, logprobs, output.finish_reason)
