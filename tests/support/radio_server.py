"""Answers of radio stations for `MediaServer`: endless sound with titles, in the ways of Icecast and SHOUTcast."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from tests.support.media_server import Answer, Reply, Request

# What a block tells, by its number; None: nothing new, as most blocks do.
Titles: TypeAlias = Callable[[int], str | None]


def icy_block(text: str) -> bytes:
    """A block of text as it stands between the sound: its length in 16 bytes, the text, zeros."""
    raw = text.encode()[: 255 * 16]
    units = -(-len(raw) // 16)
    return bytes((units,)) + raw.ljust(units * 16, b"\0")


def radio(
    sound: bytes,
    *,
    interval: int = 4096,
    titles: Titles = lambda number: None,
    bytes_per_s: float | None = None,
    burst_bytes: int = 0,
    stop_after: int | None = None,
    ends_by: Callable[[Reply], None] = Reply.cut,
    status_line: str = "HTTP/1.0 200 OK",
    content_type: str = "audio/mpeg",
    chunked: bool = False,
) -> Answer:
    """A station that plays `sound` again and again, as fast as it is taken or at `bytes_per_s` after a burst.

    It ends by `ends_by` after `stop_after` bytes of sound; with `fall_silent` it stays connected. Titles go to who
    asks for them.
    """

    async def answer(request: Request, reply: Reply) -> None:
        tells_titles = request.headers.get("icy-metadata") == "1"
        lines = f"icy-name: Test FM\r\nContent-Type: {content_type}\r\n"
        lines += f"icy-metaint: {interval}\r\n" if tells_titles else ""
        lines += "Transfer-Encoding: chunked\r\n" if chunked else ""
        await reply.send(f"{status_line}\r\n{lines}\r\n".encode())
        begun_s = asyncio.get_running_loop().time()
        sent, number = 0, 0
        while stop_after is None or sent < stop_after:
            length = interval if stop_after is None else min(interval, stop_after - sent)
            piece = _endless(sound, sent, length)
            sent += length
            if tells_titles and length == interval:
                piece += _title_block(titles(number))
                number += 1
            await reply.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            if bytes_per_s is not None:
                due_s = begun_s + (sent - burst_bytes) / bytes_per_s
                await asyncio.sleep(max(0.0, due_s - asyncio.get_running_loop().time()))
        if chunked and ends_by is Reply.cut:
            await reply.send(b"0\r\n\r\n")
        ends_by(reply)
        await asyncio.Event().wait()

    return answer


def fall_silent(_: Reply) -> None:
    """Sends nothing more and stays connected."""


def _title_block(title: str | None) -> bytes:
    return icy_block("" if title is None else f"StreamTitle='{title}';StreamUrl='';")


def _endless(sound: bytes, start: int, length: int) -> bytes:
    start %= len(sound)
    return (sound[start : start + length] + sound * (length // len(sound) + 1))[:length]
