"""The cell's ends of a container run's output pipes and channels, relayed to the supervisor."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Callable, Sequence

from verigym.sandbox.inside.cell.relay import ACK, BODY, CHANNEL, CREDITED, FILE, KILL, SHUT, STDERR, STDOUT, Channel, Relay

_POLL_MS = 5  # where the kernel has no pidfd
_LINGER_MS = 2
_PATIENCE = 3  # times per run that output is held back for _LINGER_MS


class RunOutputs:
    """The output pipes and channel sockets of one run.

    Args:
        relay: the stream to the supervisor.
        channels: number of channels.
        kill: kills the run; called when the supervisor requests it.
    """

    def __init__(self, relay: Relay, channels: int, kill: Callable[[], None]) -> None:
        self._relay = relay
        self._kill = kill
        self._outputs: dict[int, int] = {}  # our end of a pipe -> frame type
        self._channels: dict[int, Channel] = {}
        self.names: list[str] = []
        self.fds: list[int] = []
        """Descriptors of the run's ends of pipes and sockets, in the order of `names`; the caller closes them."""
        for name, kind in (("stdout", STDOUT), ("stderr", STDERR)):
            read_end, write_end = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(read_end, False)
            self._outputs[read_end] = kind
            self._give(name, write_end)
        for index in range(channels):
            cell_end, run_end = socket.socketpair()
            cell_end.setblocking(False)
            self._channels[cell_end.fileno()] = Channel(index, cell_end, relay)
            self._give("channel", run_end.detach())

    def _give(self, name: str, fd: int) -> None:
        self.names.append(name)
        self.fds.append(fd)

    def serve(self, pid: int) -> None:
        """Relay output and channel data until the process `pid` has ended. The process is not reaped."""
        watcher, patience = None, _PATIENCE
        with contextlib.suppress(OSError):
            watcher = os.pidfd_open(pid)
        try:
            while True:
                ready = self._poll(watcher)
                if watcher is not None and patience and all(fd in self._outputs for fd, _ in ready):
                    # Most programs print just before they end: that output then joins the report in one write.
                    patience -= 1
                    if self._ends_soon(watcher):
                        return
                for fd, events in ready:
                    if fd == watcher:
                        return
                    self._on_event(fd, events)
                if watcher is None and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    return
        finally:
            if watcher is not None:
                os.close(watcher)

    def _ends_soon(self, watcher: int) -> bool:
        poll = select.poll()
        poll.register(watcher, select.POLLIN)
        poll.register(self._relay.source, select.POLLIN)
        return any(fd == watcher for fd, _ in poll.poll(_LINGER_MS))

    def _poll(self, watcher: int | None) -> list[tuple[int, int]]:
        credit = self._relay.credit > 0
        poll = select.poll()
        poll.register(self._relay.source, select.POLLIN)
        if watcher is not None:
            poll.register(watcher, select.POLLIN)
        for fd in self._outputs if credit else ():
            poll.register(fd, select.POLLIN)
        for fd, channel in self._channels.items():
            wanted = (select.POLLIN if channel.open and credit else 0) | (select.POLLOUT if channel.pending else 0)
            if wanted:
                poll.register(fd, wanted)
        return poll.poll(_POLL_MS if watcher is None else None)

    def _on_event(self, fd: int, events: int) -> None:
        if fd == self._relay.source:
            self._on_frame()
        elif fd in self._outputs:
            self._pass_output(fd)
        elif self._channels[fd].pending and events & ~select.POLLIN:
            self._channels[fd].flush()
        elif self._channels[fd].open:
            self._pass_channel(self._channels[fd])

    def _on_frame(self) -> None:
        kind, body = self._relay.receive()
        if kind == KILL:
            self._kill()
        elif kind == CREDITED:
            self._relay.credit += ACK.unpack(body)[0]
        elif kind in (CHANNEL, SHUT):
            for channel in self._channels.values():
                if channel.index == body[0]:
                    channel.write(body[1:]) if kind == CHANNEL else channel.shut()

    def _pass_output(self, fd: int, *, hold: bool = False) -> bool:
        """Relay available output, within the credit. Returns whether there may be more."""
        try:
            count = os.readv(fd, [self._relay.body[: min(BODY, self._relay.credit)]])
        except BlockingIOError:
            return False
        if count:
            self._relay.send(self._outputs[fd], count, hold=hold)
            return True
        del self._outputs[fd]
        os.close(fd)
        return False

    def _pass_channel(self, channel: Channel) -> None:
        try:
            count = channel.sock.recv_into(self._relay.body[1 : 1 + min(BODY - 1, self._relay.credit)])
        except BlockingIOError:
            return
        except OSError:
            count = 0
        self._relay.body[0] = channel.index
        channel.open = count > 0
        self._relay.send(CHANNEL if count else SHUT, 1 + count)

    def _await_credit(self) -> None:
        while self._relay.credit <= 0:
            self._relay.flush()
            self._on_frame()

    def drain(self) -> None:
        """Relay the data left in pipes and sockets after all processes have ended, and close them."""
        for fd in list(self._outputs):
            self._await_credit()
            while self._pass_output(fd, hold=True):
                self._await_credit()
        for channel in self._channels.values():
            while channel.open:
                self._await_credit()
                self._pass_channel(channel)
            channel.close()
        self._channels.clear()

    def send_files(self, files: Sequence[int]) -> None:
        """Send the content of each of the descriptors `files`, and close them."""
        for index, fd in enumerate(files):
            while True:
                self._await_credit()
                self._relay.body[0] = index
                count = os.readv(fd, [self._relay.body[1 : 1 + min(BODY - 1, self._relay.credit)]])
                if not count:
                    break
                self._relay.send(FILE, 1 + count)
            os.close(fd)
