"""A program: a resolving process that knows one site more, `fake`, whose pages make it do what a test asks for.

It can be searched, too: `fakesearch:PORT words` finds what /api/search of the server at this port lists. The port may
stand anywhere in the words.
"""

import importlib
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin
from urllib.request import ProxyHandler, build_opener

from yt_dlp.extractor.common import InfoExtractor, SearchInfoExtractor
from yt_dlp.extractor.youtube.jsc.provider import (
    JsChallengeRequest,
    JsChallengeType,
    NChallengeInput,
    SigChallengeInput,
)
from yt_dlp.globals import extractors
from yt_dlp.networking.common import Request
from yt_dlp.networking.exceptions import HTTPError, RequestError
from yt_dlp.utils import ExtractorError

from tonearm.sources.resolver.child import answer_requests

sys.path.append(str(Path(__file__).parent))
attack: Any = importlib.import_module("attack")  # a program has no packages around it


def outcome(downloader: Any, fetch: dict[str, Any]) -> list[Any]:
    """What yt-dlp tells of a request, whichever handler sends it."""
    data = fetch.get("data")
    try:
        request = Request(fetch["url"], data and data.encode(), fetch.get("headers"), method=fetch.get("method"))
        response = downloader.urlopen(request)
        body = response.read(fetch.get("most"))
        told = [len(body), body[-100:].decode("latin-1"), response.get_header("X-Two")]
        return [response.status, response.reason, response.url, *told]
    except HTTPError as error:
        return [error.status, error.reason, error.redirect_loop, error.response.url, error.response.read().decode()]
    except RequestError as error:
        return [type(error).__name__]


# What an extractor must not get to do, or does wrong; with a port that it may try.
TRIES: dict[str, Callable[[int], Any]] = {
    "no-proxy": lambda port: build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/", timeout=5),
    "socket": lambda port: socket.create_connection(("127.0.0.1", port), timeout=5),
    "datagram": lambda port: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port)),
    "lookup": lambda _: socket.getaddrinfo("localhost", 80),
    "program": lambda _: subprocess.run(["/bin/true"], check=False),
    "shell": lambda _: os.system("true"),  # noqa: S605
    "fork": lambda _: os.fork(),
    "write": lambda _: Path("/dev/shm/tonearm-test").write_text("x" * 100_000),  # noqa: S108
    "memory": lambda _: bytearray(8 << 30),
    "crash": lambda _: os._exit(3),
    "sleep": lambda _: time.sleep(600),
    "bug": lambda port: [][port],
    "long": lambda _: {"id": "1", "title": "x" * 1_000_000, "url": "http://127.0.0.1:1/x"},
    "local": lambda _: {"id": "1", "title": "x", "url": "file:///etc/passwd", "ext": "mp3", "protocol": "http"},
}


SCHEMES = {"elsewhere": "http", "tunnel": "https", "ftp": "ftp"}  # of a page elsewhere


class FakeIE(InfoExtractor):  # type: ignore[misc]  # yt-dlp has no types
    IE_NAME = "fake"
    _VALID_URL = r"https?://127\.0\.0\.1:\d+/fake/(?P<id>[a-z-]+)(?:\?(?:v=)?(?P<port>\d+))?"

    def _real_extract(self, url: str) -> Any:
        what, port = self._match_valid_url(url).group("id", "port")
        if what in TRIES:
            return TRIES[what](int(port or 0))
        if what in SCHEMES:
            return self._download_webpage(f"{SCHEMES[what]}://127.0.0.1:{port}/", "elsewhere")
        return getattr(self, "_" + what.replace("-", "_"))(url, int(port or 0))

    def _told(self, url: str, port: int) -> Any:
        """What the server's /api/told says."""
        return self._download_json(url.replace("/fake/", "/api/"), "told")

    def _list(self, url: str, port: int) -> Any:
        first = {**self._told(url.replace("/fake/list", "/fake/told"), port), "id": "1"}
        return self.playlist_result([first, {"id": "2", "title": "b", "url": "http://127.0.0.1:1/never"}], "all", "l")

    def _pages(self, url: str, port: int) -> Any:
        """A list of what the server's /api/pages says, entry by entry as it is."""
        listed = self._download_json(url.replace("/fake/", "/api/"), "pages")
        return self.playlist_result(listed["entries"], "all", listed.get("title"), playlist_count=listed.get("count"))

    def _private_list(self, url: str, port: int) -> Any:
        """A list that is private, and the video in it that the link names is not."""
        if not self.get_param("noplaylist"):
            raise ExtractorError("The playlist is private", expected=True)
        return self._told(url.replace("/fake/private-list", "/fake/told"), port)

    def told_at(self, url: str, mark: str = "", **more: Any) -> Any:
        return self.url_result(re.sub(r"/fake/[a-z-]+", "/fake/told", url) + mark, **more)

    def numbered(self, url: str, count: int | None = None, pause_s: float = 0.0) -> Any:
        """Pages without end, or so many before the others turn out to be private."""
        for number in itertools.count():
            if number == count:
                raise ExtractorError("The rest is private", expected=True)
            yield self.told_at(url, f"#{number}")
            time.sleep(pause_s)

    def _gone_in_it(self, url: str, port: int) -> Any:
        """A list with a video that is gone, as yt-dlp lists those of YouTube."""
        is_shown = "no-youtube-unavailable-videos" not in self.get_param("compat_opts")
        gone = [self.url_result(url.replace("/fake/gone-in-it", "/fake/gone"))] if is_shown else []
        return self.playlist_result([*gone, self.told_at(url)], "all", "G")

    def _pages_one(self, url: str, port: int) -> Any:
        return self.playlist_result([self.told_at(url)], "all", "One")

    def _endless(self, url: str, port: int) -> Any:
        return self.playlist_result(self.numbered(url), "all", "Endless")

    def _million(self, url: str, port: int) -> Any:
        return self.playlist_result([self.told_at(url, video_title="x" * 100_000)] * 1_000_000, "all", "y" * 100_000)

    def _broken_list(self, url: str, port: int) -> Any:
        return self.playlist_result(self.numbered(url, port), "all", "Broken")

    def _slow_list(self, url: str, port: int) -> Any:
        return self.playlist_result(self.numbered(url, pause_s=0.3), "all", "Slow")

    def _fetches(self, url: str, port: int) -> Any:
        """Sends the requests that the server lists at /api/fetches, and tells it at /api/outcomes what came of them."""
        listed = self._download_json(url.replace("/fake/", "/api/"), "fetches")
        outcomes = [outcome(self._downloader, fetch) for fetch in listed]
        self._download_webpage(url.replace("/fake/fetches", "/api/outcomes"), "x", data=json.dumps(outcomes).encode())
        raise ExtractorError("told", expected=True)

    def _script(self, url: str, port: int) -> Any:
        """Has challenges solved by a script of the server, as YouTube's pages do, and is titled by the answers."""
        youtube = self._downloader.get_info_extractor("Youtube")
        youtube.initialize()
        player = NChallengeInput(urljoin(url, f"/s/player/{port:08}/player_ias.vflset/en_US/base.js"), ["abc"])
        signature = SigChallengeInput(player.player_url, ["xyz"])
        asked = [JsChallengeRequest(JsChallengeType.N, player), JsChallengeRequest(JsChallengeType.SIG, signature)]
        solved = youtube._jsc_director.bulk_solve(asked)
        if not solved:
            self.report_warning("n challenge solving failed: Some formats may be missing.")
            raise ExtractorError("Requested format is not available", expected=True)
        answers = " ".join(answer for _, found in solved for answer in found.output.results.values())
        return {"id": "1", "title": answers, "url": urljoin(url, "/song.mp3"), "ext": "mp3"}

    def _floods(self, url: str, port: int) -> Any:
        while True:
            self._request_webpage(url.replace("/fake/", "/api/"), "floods")

    def _holds(self, url: str, port: int) -> Any:
        held = [self._request_webpage(url.partition("?")[0].replace("/fake/", "/api/"), "x") for _ in range(port)]
        raise ExtractorError(f"held {len(held)}", expected=True)

    def _print(self, url: str, port: int) -> Any:
        print('{"page": {"url": "http://127.0.0.1:1/wrong"}}', flush=True)  # noqa: T201
        os.write(1, b"garbage\n")
        return self._told(url.replace("/fake/print", "/fake/told"), port)

    def _keys(self, url: str, port: int) -> Any:
        """What /api/told says, titled by the arguments of this extractor; the cookies go with the request."""
        told = self._told(url.replace("/fake/keys", "/fake/told"), port)
        return {**told, "title": " ".join(self._configuration_arg("token", ["none"], casesense=True))}

    def _gone(self, url: str, port: int) -> Any:
        raise ExtractorError("\x1b[0;31mThis video\x1b[0m is\nprivate")

    def _attack(self, url: str, port: int) -> Any:
        raise ExtractorError("got through: " + ", ".join(attack.attack()), expected=True)

    def _refused(self, url: str, port: int) -> Any:
        through = attack.attack()
        told = ", ".join(name for name in attack.tries() if name not in through)
        raise ExtractorError(f"refused: {told}", expected=True)


class FakeSearchIE(SearchInfoExtractor):  # type: ignore[misc]  # yt-dlp has no types
    IE_NAME = "fake:search"
    _SEARCH_KEY = "fakesearch"

    def _search_results(self, query: str) -> Any:
        port = re.search(r"\d{4,5}", query)[0]  # type: ignore[index]
        words = query.replace(port, "", 1).strip()
        yield from self._download_json(
            f"http://127.0.0.1:{port}/api/search", words, headers={"X-Words": quote(words, ' &"')}
        )


def make_known() -> None:
    extractors.value["FakeSearchIE"] = FakeSearchIE
    extractors.value["FakeIE"] = FakeIE


if __name__ == "__main__":
    make_known()
    answer_requests(sys.argv[1:])
