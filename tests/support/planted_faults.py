"""Faults that cannot be had through an interface: of the kernel, and of our own code. Each is there for as long as its
context lasts."""

import _thread
import asyncio
import errno
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import pytest

from tonearm.core.events import DeleteReason
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.opening.source_input import SourceOpening
from tonearm.decoder.session.frame_buffer import FrameBuffer
from tonearm.player.clients.broadcast import Broadcast
from tonearm.player.engine import Engine
from tonearm.player.player import Player
from tonearm.player.sending import Sending
from tonearm.server.websocket import WebSocketConnection

Fault: TypeAlias = AbstractContextManager[None]
OUR_FAULT: Final = "a fault of our own"


@contextmanager
def _in_place_of(owner: object, name: str, fault: Callable[..., Any]) -> Iterator[None]:
    """`owner` has `fault` under this name meanwhile: the one place where tests replace what the product calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, fault)
        yield


def _raising(error: Callable[[], Exception]) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error()

    return fail


_fail: Final = _raising(lambda: LookupError(OUR_FAULT))


def _failing(owner: object, name: str, error: Callable[[], Exception] | None = None) -> Callable[[], Fault]:
    """What can be done under this name fails: with an error of our own, or this one."""
    return lambda: _in_place_of(owner, name, _raising(error) if error else _fail)


@contextmanager
def descriptors_refused(times: int) -> Iterator[None]:
    """The kernel refuses to send descriptors so many times, and takes them then: more are on their way than a process
    may have open (unix(7), ETOOMANYREFS)."""
    really, tries = socket.send_fds, iter(range(times))

    def refusing(*arguments: Any) -> int:
        if next(tries, None) is not None:
            raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))
        return really(*arguments)

    with _in_place_of(socket, "send_fds", refusing):
        yield


@contextmanager
def disk_full() -> Iterator[None]:
    """Copies of files find no room, and none is left for what the disk is waited for. SQLite has its own calls."""

    full = _raising(lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with _in_place_of(shutil, "copyfile", full), _in_place_of(os, "fsync", full):
        yield


# Of players


def break_delete(player: Player) -> None:
    """From now on each delete of the player does its work and fails then."""
    delete = player.delete

    async def fail(reason: DeleteReason | None = None) -> None:
        await delete(reason)
        _fail()

    player.delete = fail  # type: ignore[method-assign]


def broken_companion() -> Any:
    """Of a player: it fails at whatever the player asks of it."""
    return SimpleNamespace(record=_fail, player_ended=_fail)


no_threads: Final = _failing(_thread, "start_new_thread", lambda: RuntimeError("can't start new thread"))
events_not_emitted: Final = _failing(Engine, "emit")  # no engine of a player can tell what happens
frames_not_sent: Final = _failing(Broadcast, "send")  # to nobody who listens
frames_not_passed: Final = _failing(Sending, "pass_frames")  # by a player that sleeps
audio_not_taken_in: Final = _failing(FrameBuffer, "append")  # that a decoder process sends
sources_not_begun: Final = _failing(SourceOpening, "_begin")  # an opened source is not given to a decoder process


@contextmanager
def tags_not_taken_in(player_id: str) -> Iterator[None]:
    """By this player."""
    really = Player.tags_read

    def broken(player: Player, track_id: str, facts: SourceFacts | None) -> None:
        (_fail if player.player_id == player_id else really)(player, track_id, facts)

    with _in_place_of(Player, "tags_read", broken):
        yield


@contextmanager
def players_closed_later(may_close: asyncio.Event) -> Iterator[None]:
    """What players hold is given back only from then on."""
    really = Engine.close

    async def held(engine: Engine) -> None:
        await may_close.wait()
        await really(engine)

    with _in_place_of(Engine, "close", held):
        yield


sockets_not_read: Final = _failing(WebSocketConnection, "_receive_until_closed")  # what a client sends
