"""Lists in slices: no more of one is made at a stretch than the audio clock can wait for."""

from tests.support.edge import StillNode
from tests.support.http_client import request, send_json
from tests.support.tracks import make_track
from tonearm.core.metadata import MAX_METADATA_BYTES
from tonearm.core.playback_requests import Requests
from tonearm.server.replies import SENT_AT_ONCE_BYTES

FAT = "x" * (MAX_METADATA_BYTES - 2)


async def test_a_long_list_of_fat_items_is_sent_while_it_is_made(node: StillNode, port: int) -> None:
    player = node.player("p")
    player.do(Requests.enqueue, make_track("now"), *(make_track("waits", [FAT, number]) for number in range(60)))
    answer = await request(port, "GET", "/v0/players/p/queue")
    assert (answer.status, answer.header("Transfer-Encoding")) == (200, "chunked")
    assert len(answer.body) > 3 * SENT_AT_ONCE_BYTES
    assert answer.header("ETag") == f'W/"{player.status().life}.{player.queue.version}"'
    assert [item["metadata"] for item in answer.json()] == [[FAT, number] for number in range(60)]
    head = await request(port, "HEAD", "/v0/players/p/queue")
    assert (head.status, head.body) == (200, b"")


async def test_the_tag_of_a_queue_changes_with_its_edits_and_not_with_metadata(node: StillNode, port: int) -> None:
    player = node.player("p")
    player.do(Requests.enqueue, *map(make_track, "abc"))
    version = player.queue.version
    for route, body, edits in (
        ("PATCH queue/c", {"index": 0}, 1),
        ("PATCH metadata", {"value": 1}, 0),
        ("DELETE queue/b", None, 1),
        ("DELETE queue", None, 1),
    ):
        method, path = route.split()
        assert (await send_json(port, method, f"/v0/players/p/{path}", body)).status == 204
        version += edits
        tag = (await request(port, "GET", "/v0/players/p/queue")).header("ETag")
        assert tag == f'W/"{player.status().life}.{version}"', route
