"""Reads the service's bearer tokens, and checks whether a request has one of them."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from verigym.envs.contract.errors import UsageError, near_file

VARIABLE = "VERIGYM_TOKEN"
SHORTEST = 16
_MAKE_ONE = "make one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`"


class Tokens:
    """The accepted tokens, stored as hashes. There may be several, so that clients can change over to a new token one by one.

    Args:
        tokens: the tokens; empty to accept every request.

    Raises:
        UsageError: a token is too short, or holds a character that a header cannot carry.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        for place, token in enumerate(tokens, 1):
            if len(token) < SHORTEST:
                raise UsageError(f"token {place} has {len(token)} characters; expected at least {SHORTEST}: {_MAKE_ONE}")
            if not token.isascii() or not token.isprintable() or " " in token:
                raise UsageError(f"token {place} holds spaces or characters beyond ASCII, which a header cannot carry")
        self._hashes = [hashlib.sha256(token.encode()).digest() for token in tokens]

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def accept(self, authorization: bytes | None) -> bool:
        """Return True if the value of an Authorization header holds an accepted token.

        The check of a wrong token takes as long as that of an accepted one.
        """
        scheme, _, given = (authorization or b"").partition(b" ")
        digest = hashlib.sha256(given.strip()).digest()
        found = False
        for known in self._hashes:
            found |= hmac.compare_digest(digest, known)
        return found and scheme.lower() == b"bearer"


def read_tokens(file: str | None) -> Tokens:
    """Return the tokens in `file`, one per line; if `file` is None, the token in the environment variable `VERIGYM_TOKEN`.

    Tokens are not accepted as command-line arguments, which all users of a machine can read.

    Raises:
        UsageError: the file cannot be read or is empty, both file and variable are given, or a token is invalid.
    """
    value = os.environ.get(VARIABLE, "")
    if file is None:
        return Tokens([value.strip()] if value.strip() else [])
    if value.strip():
        raise UsageError(f"tokens are given twice: by --token-file and by the variable {VARIABLE}; leave one out")
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        hint = near_file(file) if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"--token-file {file}: {getattr(error, 'strerror', None) or error}{hint}") from None
    tokens = [line.strip() for line in lines if line.strip()]
    if not tokens:
        raise UsageError(f"--token-file {file} is empty; expected a token a line: {_MAKE_ONE}")
    return Tokens(tokens)


def is_loopback(host: str) -> bool:
    """Return True if `host`, an address or a name, can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in found)


def refuse_open_service(host: str, tokens: Tokens) -> None:
    """Check that a service that other machines can reach has a token.

    Raises:
        UsageError: there is no token, and `host` can be reached from other machines.
    """
    if not tokens and not is_loopback(host):
        raise UsageError(
            f"host {host!r} can be reached from other machines, which needs a token: set {VARIABLE} or --token-file "
            f"({_MAKE_ONE}), or listen on 127.0.0.1"
        )


def is_local_name(host: bytes | None) -> bool:
    """Return True if `host`, the value of a Host header, is a name of this machine itself.

    The owner of a web page could let a host name of their own point to this machine; the result is False for such a name.
    """
    if host is None:
        return False
    name = host.decode("latin-1").strip()
    if name.startswith("["):
        name, _, rest = name[1:].partition("]")
        if rest and not (rest.startswith(":") and rest[1:].isdecimal()):
            return False
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
