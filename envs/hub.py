"""Checks within seconds whether the Hugging Face hub answers; the hub's own libraries try for a minute before they give up."""

from __future__ import annotations

import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from verigym.envs.extras import need

TIMEOUT_S = 5.0


@contextmanager
def hub_or_cache(what: str) -> Iterator[str]:
    """Return a context manager for reading from the hub. If the hub does not answer, the hub's libraries use only their caches.

    The value of the `with` statement is an empty string if the hub answers. Otherwise it says why only caches are read, for
    example `the hub does not answer (timed out)`.

    Args:
        what: the feature that needs the hub, for the error message.

    Raises:
        UsageError: the hub's libraries are not installed.
    """
    hub: Any = need("huggingface_hub", what)
    if hub.constants.HF_HUB_OFFLINE:
        yield "the hub is not asked (HF_HUB_OFFLINE is set)"
        return
    reason = no_answer(hub.constants.ENDPOINT)
    if not reason:
        yield ""
        return
    # The libraries read the variable HF_HUB_OFFLINE when they are imported; later only what they have made of it counts.
    settings = [(hub.constants, hub.constants.HF_HUB_OFFLINE)]
    if "datasets" in sys.modules:
        datasets: Any = sys.modules["datasets"]
        settings.append((datasets.config, datasets.config.HF_HUB_OFFLINE))
    for place, _ in settings:
        place.HF_HUB_OFFLINE = True
    try:
        yield f"the hub does not answer ({reason})"
    finally:
        for place, before in settings:
            place.HF_HUB_OFFLINE = before


def no_answer(endpoint: str, timeout_s: float = TIMEOUT_S) -> str:
    """Return why the server at `endpoint` does not answer, or an empty string if it does.

    Any HTTP status and any TLS error count as an answer.
    """
    try:
        urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=timeout_s).close()
    except urllib.error.HTTPError:
        return ""
    except (OSError, ValueError) as error:
        cause = getattr(error, "reason", error)
        # A certificate that only this check does not know is an answer.
        return "" if isinstance(cause, ssl.SSLError) else str(getattr(cause, "strerror", None) or cause) or type(cause).__name__
    return ""
