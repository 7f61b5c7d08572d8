"""The worker process: limits its own memory, then serves its sessions until its parent is gone."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
from collections.abc import Mapping

from verigym.envs.contract.base import Environment
from verigym.envs.grading.channel import Channel, encode
from verigym.envs.grading.child import Room, settle
from verigym.envs.grading.process import READY
from verigym.envs.sessions.host import Host

_FILES = 1 << 16
"""Descriptors that a process may use if the system allows: sessions and connections hold a few each, and 1,024 is usual."""


def serve(sock: socket.socket, environments: Mapping[str, Environment], memory_bytes: int | None, parent_pid: int) -> None:
    """Answer requests from `sock` until the connection closes. This is the main function of a spawned process.

    The environments' `prepare` is not called, because it loads what judging needs and this process judges nothing.
    """
    settle(sock, memory_bytes, parent_pid)
    _take_along()
    allow_files()
    channel = Channel(sock)
    # What a session forks must not hold the connection open: its end tells the parent that this process has died.
    os.register_at_fork(after_in_child=channel.close)
    host = Host(environments, Room(memory_bytes).enough)
    own_pid = os.getpid()
    channel.send(encode(READY))
    while True:
        try:
            request = channel.receive()
        except EOFError:
            host.close_all()
            # Threads that a session left behind must not keep the process.
            os._exit(0)
        answer = host.answer(request)
        if os.getpid() != own_pid:  # a session has forked and come back in the child, which must not answer a second time
            os._exit(1)
        channel.send(answer)


def _take_along() -> None:
    """Fork a process that kills this one's group when this one has died, which takes what sessions have started along.

    The kernel ends this process with its parent, but not the processes below. Without pidfd_open only `ChildProcess.kill` does.
    """
    try:
        here = os.getpid()
        watched = os.pidfd_open(here)
        if os.fork():
            os.close(watched)
            return
    except OSError:
        return
    try:
        os.closerange(0, watched)
        os.closerange(watched + 1, _FILES)
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        poll.poll()
        os.killpg(here, signal.SIGKILL)
    finally:
        os._exit(0)


def allow_files() -> None:
    """Raise this process's limit on open files, if the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
