"""ASGI middleware that lets a vLLM server take the trainer's weights and sample only from the version that is requested.

Use: `vllm serve --middleware verigym.trainer.engines.vllm.receiver.Receiver`. The module needs only the standard library until
weights arrive.

- `GET /verigym/status` returns the server's status.
- `PUT /verigym/weights/VERSION/PART` stores a safetensors file. All files of a version together may not be larger than the
  model; see `most_bytes`.
- `POST /verigym/weights/VERSION` loads the stored files, or those of a folder that the trainer shares with the server.

A completion request that names a version in the header `x-verigym-version` gets status 409 if the server has another version
when the request arrives or when its answer is ready. So no such request is answered by a restarted server with the weights it
was started with, and no answer mixes two versions.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

PREFIX = "/verigym/"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
SUFFIX = ".safetensors"
LONGEST_JSON = 65536
HEADERS = 2**24
"""Size limit in bytes for the headers of all files of a push together. A header contains the names and shapes of the
tensors."""


class HttpError(Exception):
    """A request is refused with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Receiver:
    """ASGI middleware in front of vLLM's server. It receives new weights.

    It also refuses a completion request for another version of the weights than the server has.
    """

    def __init__(self, app: App) -> None:
        """Wrap the application `app`. The folder for received weights exists only from their arrival until they are loaded."""
        self.app = app
        self.boot = secrets.token_hex(8)
        self.version: str | None = None
        self.lock = asyncio.Lock()
        self.folder: Path | None = None
        self.loading: str | None = None
        self.sizes: dict[str, dict[str, int]] = {}
        """Bytes of each version's files, including those still arriving."""
        self.most: int | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer requests below `/verigym/` and pass on the others."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        wanted = headers.get("x-verigym-version")
        if not path.startswith(PREFIX):
            await self._pass_on(scope, receive, send, wanted)
            return
        try:
            _check_key(headers.get("authorization", ""))
            await _answer(send, 200, await self._serve(scope, path.removeprefix(PREFIX).split("/"), receive))
        except HttpError as error:
            await _answer(send, error.status, {"error": str(error)})
        except Exception as error:
            await _answer(send, 500, {"error": f"{type(error).__name__}: {error}"[:2000]})

    async def _pass_on(self, scope: dict[str, Any], receive: Receive, send: Send, wanted: str | None) -> None:
        """Have vLLM answer, with 409 in place of its answer where the weights are not, or no longer, those of the request."""
        if wanted is None:
            await self.app(scope, receive, send)
            return
        refused = False

        async def checked(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and wanted != self.version:
                refused = True
                await _answer(send, 409, {"error": "other weights"})
            if not refused:
                await send(message)

        if wanted != self.version:
            await _answer(send, 409, {"error": "other weights"})
        else:
            await self.app(scope, receive, checked)

    async def _serve(self, scope: dict[str, Any], words: list[str], receive: Receive) -> dict[str, Any]:
        method = scope["method"]
        state = scope["app"].state
        if (method, words) == ("GET", ["status"]):
            return {**self._state(), **_describe(state)}
        if words[0] != "weights" or not all(NAME.fullmatch(word) for word in words[1:]):
            raise HttpError(404, "there are /verigym/status and /verigym/weights/VERSION[/PART]")
        if method == "PUT" and len(words) == 3:
            if self.most is None:
                self.most = await asyncio.to_thread(most_bytes, state)
            await self._store(words[1], words[2], receive, self.most)
        elif method == "POST" and len(words) == 2:
            await self._load(state.engine_client, words[1], await _read_json(receive))
        else:
            raise HttpError(405, f"no {method} here")
        return self._state()

    def _state(self) -> dict[str, Any]:
        return {"boot": self.boot, "version": self.version}

    async def _store(self, version: str, part: str, receive: Receive, most: int) -> None:
        _check_part(part)
        if version not in self.sizes:  # what another push has left is of no use any more
            await self._forget(but=self.loading)
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="verigym-weights-"))
            self._remove = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        folder, sizes = self.folder / version, self.sizes.setdefault(version, {})
        folder.mkdir(exist_ok=True)
        partial = folder / f".{part}.{secrets.token_hex(4)}"
        sizes.pop(part, None)
        try:
            with partial.open("wb") as file:
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HttpError(400, "the connection ended before the file did")
                    body = message.get("body", b"")
                    sizes[partial.name] = sizes.get(partial.name, 0) + len(body)
                    if self.sizes.get(version) is not sizes:
                        raise HttpError(503, "another push has begun, or this one is loaded")
                    if sum(sizes.values()) > most:
                        raise HttpError(
                            413, f"more than the {most:,} bytes of this server's model in fp32; is it the trainer's?"
                        )
                    await asyncio.to_thread(file.write, body)
                    more = message.get("more_body", False)
            os.replace(partial, folder / part)
            sizes[part] = sizes[partial.name]
        finally:
            sizes.pop(partial.name, None)
            partial.unlink(missing_ok=True)

    async def _forget(self, but: str | None = None) -> None:
        """Delete all versions' files, or all but one's, and the folder where it is empty then."""
        self.sizes = {version: sizes for version, sizes in self.sizes.items() if version == but}
        for old in self.folder.iterdir() if self.folder is not None else ():
            if old.name != but:
                await asyncio.to_thread(shutil.rmtree, old, ignore_errors=True)
        if self.folder is not None and not any(self.folder.iterdir()):  # no other push has begun meanwhile
            self._remove()
            self.folder = None

    async def _load(self, engine: Any, version: str, body: Mapping[str, Any]) -> None:
        parts = body.get("parts")
        if not isinstance(parts, list) or not parts:
            raise HttpError(400, "`parts` names no file")
        for part in parts:
            _check_part(part)
        async with self.lock:
            # A client that gave up waiting for a load requests it again, perhaps after its files were deleted.
            if self.version != version:
                self.loading = version
                try:
                    await self._reload(engine, version, self._folder(version, body), set(parts))
                finally:
                    self.loading = None
            await self._forget()

    async def _reload(self, engine: Any, version: str, folder: Path, parts: set[str]) -> None:
        files = {file.name for file in folder.iterdir() if not file.name.startswith(".")}
        if parts - files:
            raise HttpError(503, f"these files have not arrived: {sorted(parts - files)[:5]}")
        if files - parts:  # vLLM would load them, too
            raise HttpError(400, f"there are files that `parts` does not name: {sorted(files - parts)[:5]}")
        self.version = None
        # Running completions are stale, and would keep their blocks in the prefix cache.
        await engine.pause_generation(mode="abort")
        try:
            await engine.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
            if not await engine.reset_prefix_cache():
                raise HttpError(503, "a completion is still being sampled, so the prefix cache could not be emptied")
        finally:
            await engine.resume_generation()
        self.version = version

    def _folder(self, version: str, body: Mapping[str, Any]) -> Path:
        if body.get("folder") is None:
            if self.folder is None or not (self.folder / version).is_dir():
                raise HttpError(503, f"no files of version {version} have arrived")
            return self.folder / version
        shared = os.environ.get("VERIGYM_WEIGHTS_DIR")
        if not shared:
            raise HttpError(
                400, "this server shares no folder; start it with VERIGYM_WEIGHTS_DIR, or leave vllm_weights_dir out"
            )
        folder = Path(str(body["folder"])).resolve()
        if not folder.is_relative_to(Path(shared).resolve()):
            raise HttpError(400, f"{folder} is not a folder below {shared}, the VERIGYM_WEIGHTS_DIR of this server")
        if not folder.is_dir():  # other machines see it a little later
            raise HttpError(503, f"{folder} is not there; see that VERIGYM_WEIGHTS_DIR is the trainer's vllm_weights_dir")
        return folder


def most_bytes(state: Any) -> int:
    """Return the largest size in bytes that pushed weights may have.

    This is the size of the model in fp32, with embeddings and head counted separately, plus `HEADERS` for the headers of the
    files. If the size is unknown, because the installed transformers does not know the model, the result is 2**63: no limit.
    """
    try:
        import torch
        import transformers

        config = state.vllm_config.model_config.hf_text_config
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False)
        numbers: int = sum(parameter.numel() for parameter in model.parameters()) + config.vocab_size * config.hidden_size
    except (AttributeError, ImportError, KeyError, RuntimeError, TypeError, ValueError):
        return 2**63
    return 4 * numbers + HEADERS


def _describe(state: Any) -> dict[str, Any]:
    """Return what the trainer checks before it uses a server."""
    config = state.vllm_config.model_config
    inner = config.hf_text_config
    return {
        "max_model_len": config.max_model_len,
        "logprobs_mode": str(config.logprobs_mode),
        "shape": [inner.model_type, inner.vocab_size, inner.hidden_size, inner.num_hidden_layers],
    }


def _check_part(name: object) -> None:
    # Other types of files that vLLM loads may hold code.
    if not isinstance(name, str) or not NAME.fullmatch(name) or not name.endswith(SUFFIX):
        raise HttpError(400, f"{str(name)[:200]!r} is not the name of a {SUFFIX} file")


def _check_key(authorization: str) -> None:
    # vLLM's own check stands behind this middleware and looks at its own paths only.
    key = os.environ.get("VLLM_API_KEY", "")
    if key and not hmac.compare_digest(authorization.encode(), f"Bearer {key}".encode()):
        raise HttpError(401, "the key is missing or wrong")


async def _read_json(receive: Receive) -> Mapping[str, Any]:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False) and message["type"] != "http.disconnect"
        if len(body) > LONGEST_JSON:
            raise HttpError(413, f"more than {LONGEST_JSON} bytes of JSON")
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        raise HttpError(400, "the body is not JSON") from None
    if not isinstance(value, dict):
        raise HttpError(400, "the body is not a JSON object")
    return value


async def _answer(send: Send, status: int, body: Mapping[str, Any]) -> None:
    data = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
