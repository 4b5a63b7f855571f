"""The listeners' side, in a process of its own: connects, notes when frames come, reports how late they were.

`python -m bench.listeners` reads one JSON order a line from stdin and answers with one JSON line each:
{"do": "listen", "url": …, "path": "/v0/players/{}/ws", "ids": […]} and {"do": "measure", "seconds": …}.
"""

import asyncio
import json
import sys
import time

import aiohttp

FRAME_S = 0.020


async def main() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    times: list[list[float]] = []
    tasks: list[asyncio.Task[None]] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        while line := await reader.readline():
            order = json.loads(line)
            if order["do"] == "listen":
                for player_id in order["ids"]:
                    arrivals: list[float] = []
                    times.append(arrivals)
                    url = order["url"] + order["path"].format(player_id)
                    tasks.append(loop.create_task(_listen(session, url, arrivals)))
                    await asyncio.sleep(0.002)
                answer: dict[str, object] = {"listening": len(tasks)}
            else:
                begun, ticks = time.monotonic(), asyncio.ensure_future(_tick(order["seconds"]))
                await asyncio.sleep(order["seconds"])
                answer = _report(times, begun, time.monotonic())
                answer["ticker_p99_ms"] = await ticks
            print(json.dumps(answer), flush=True)
        for task in tasks:
            task.cancel()


async def _listen(session: aiohttp.ClientSession, url: str, arrivals: list[float]) -> None:
    async with session.ws_connect(url, max_msg_size=0) as socket:
        async for _ in socket:
            arrivals.append(time.monotonic())  # noqa: PERF401 - others read the list while it grows


async def _tick(seconds: float) -> float:
    """A bare 20 ms ticker in this process: what lateness the machine itself adds. Returns its p99 in ms."""
    deadline = time.monotonic()
    late: list[float] = []
    end = deadline + seconds - FRAME_S
    while deadline < end:
        deadline += FRAME_S
        await asyncio.sleep(deadline - time.monotonic())
        late.append((time.monotonic() - deadline) * 1000)
    return sorted(late)[int(len(late) * 0.99)]


def _report(times: list[list[float]], begun: float, ended: float) -> dict[str, object]:
    """Frames of each listener against the ideal count, and lateness against each listener's own 20 ms grid."""
    shares: list[float] = []
    lateness: list[float] = []
    frames = 0
    for arrivals in times:
        inside = [arrival for arrival in arrivals if begun <= arrival < ended]
        frames += len(inside)
        # A window holds one frame more or less, as it happens to lie over the frames.
        shares.append(min(1.0, len(inside) / (int((ended - begun) / FRAME_S) - 1)))
        if inside:
            offsets = [arrival - number * FRAME_S for number, arrival in enumerate(inside)]
            earliest = min(offsets)
            lateness.extend((offset - earliest) * 1000 for offset in offsets)
    lateness.sort()
    return {
        "frames": frames,
        "worst_share": min(shares, default=0.0),
        "late_p50_ms": lateness[len(lateness) // 2] if lateness else None,
        "late_p99_ms": lateness[int(len(lateness) * 0.99)] if lateness else None,
    }


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
