"""The node's end of a decoder's socket, with the other end held by hand."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.planted_faults import descriptors_refused
from tonearm.decoder.message_coding import BrokenMessage, Message, MessageSplitter, pack
from tonearm.decoder.messages import DATA_CHUNK_BYTES, Data, DropSource, FromNode, OpenSource, Ping, Pong
from tonearm.decoder.pool.link import DecoderLink


class Ends:
    """A link, what it received and how it ended, and the decoder's end of its socket."""

    def __init__(self) -> None:
        node_end, self.decoder_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.decoder_end.setblocking(False)
        self.taken: list[Message] = []
        self.ended: list[OSError | BrokenMessage | None] = []
        self.link = DecoderLink(node_end, self.taken.append, self.ended.append)

    async def received(self, count: int) -> tuple[list[Message], int]:
        """So many messages at the decoder's end, and how many descriptors came with them, none after its message."""
        splitter, messages, descriptors = MessageSplitter(FromNode), list[Message](), 0
        while len(messages) < count:
            await asyncio.sleep(0)
            with contextlib.suppress(BlockingIOError):
                received, came, _, _ = socket.recv_fds(self.decoder_end, 50_000, 4)
                for descriptor in came:
                    os.close(descriptor)
                descriptors += len(came)
                messages += splitter.feed(received)
                assert descriptors >= sum(isinstance(message, OpenSource) for message in messages)
        return messages, descriptors

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


@pytest_asyncio.fixture
async def ends() -> AsyncIterator[Ends]:
    ends = Ends()
    yield ends
    ends.link.close()
    ends.decoder_end.close()


def data(number: int) -> Data:
    return Data(1, 2, number, number.to_bytes(2, "little") * (DATA_CHUNK_BYTES // 2))


def open_source(number: int) -> OpenSource:
    return OpenSource(1, number, "a", None, True, False, None, 0, True)


async def test_messages_arrive_in_order_however_slowly_they_are_read(ends: Ends) -> None:
    """Far more than the kernel takes at once, with descriptors in between."""
    orders: list[FromNode] = []
    for number in range(60):
        orders.append(data(number))
        if number % 7 == 0:
            orders.append(open_source(number))
    for order in orders:
        ends.link.send(order, os.open("/dev/null", os.O_RDONLY) if isinstance(order, OpenSource) else None)
    assert await ends.received(len(orders)) == (orders, 9)


async def test_the_end_is_reported_once_and_nothing_is_sent_after_it(ends: Ends) -> None:
    ends.decoder_end.close()
    ends.link.send(Ping(1))
    await ends.settle()
    descriptor = os.open("/dev/null", os.O_RDONLY)
    ends.link.send(open_source(1), descriptor)
    await ends.settle()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert len(ends.ended) == 1


async def test_a_descriptor_not_taken_yet_holds_up_its_session_alone(ends: Ends) -> None:
    later: list[FromNode] = [open_source(1), DropSource(1, 9), open_source(2), DropSource(1, 8)]
    with descriptors_refused(2):
        for order in later:
            ends.link.send(order, os.open("/dev/null", os.O_RDONLY) if isinstance(order, OpenSource) else None)
        ends.link.send(Ping(1))
        ends.link.send(DropSource(2, 7))
        assert await ends.received(6) == ([Ping(1), DropSource(2, 7), *later], 2)


@pytest.mark.parametrize("refused", [True, False])
async def test_closing_gives_descriptors_back(ends: Ends, refused: bool) -> None:
    """Because the kernel did not take them, or because of what was to be sent before."""
    if not refused:
        for number in range(20):
            ends.link.send(data(number))
    descriptor = os.open("/dev/null", os.O_RDONLY)
    with descriptors_refused(1000) if refused else contextlib.nullcontext():
        ends.link.send(open_source(1), descriptor)
        await ends.settle()
        ends.link.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    await ends.settle()
    assert ends.ended == []


async def test_what_a_process_sent_before_its_end_is_received_in_one_go(ends: Ends) -> None:
    pongs = [Pong(number, 0.0) for number in range(1000)]
    ends.decoder_end.send(b"".join(map(pack, pongs)))
    ends.decoder_end.close()
    ends.link.receive_remaining()
    assert ends.taken == pongs
    assert ends.ended == [None]
    ends.link.receive_remaining()
    assert ends.ended == [None]
