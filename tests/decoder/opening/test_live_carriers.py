"""What becomes of a stream's carrier when its process dies."""

from tests.support.fetching import opener
from tests.support.media_server import MediaServer
from tests.support.player_bench import HandPool, HandSession, HandSuspects
from tests.support.radio_server import radio
from tonearm.core.opened_source import OpenedSource, ignore_wait
from tonearm.core.source_uri import parse_source_uri
from tonearm.decoder.opening.live_carriers import LiveCarriers
from tonearm.decoder.pool.process import SessionOwner
from tonearm.sources.shared_streams import SharingOpener


class Link(HandSession):
    def beside(self, owner: SessionOwner) -> HandSession:
        return Link(self.id + 100, self._pool)


async def test_a_stream_is_one_suspect_however_many_play_it_and_is_carried_anew() -> None:
    suspects = HandSuspects()
    carriers = LiveCarriers(suspects.add)
    link = Link(1, HandPool())
    async with MediaServer() as server, opener() as source_opener:
        uri = parse_source_uri(server.serve("/live", radio(b"sound" * 10_000)))
        opened = await SharingOpener(source_opener).open(uri, ignore_wait)
        assert isinstance(opened, OpenedSource)
        joined = [carriers.join(opened, uri, link) for _ in range(5)]
        carrier = joined[0]
        assert carrier is not None
        assert joined == [carrier] * 5
        carrier.process_lost((1,))
        assert suspects.uris == [uri.given]
        again = carriers.join(opened, uri, link)
        assert again is not None
        assert again is not carrier
        for _ in joined:
            await carrier.leave()
        await again.leave()
        await opened.close()
        await server.all_gone()
