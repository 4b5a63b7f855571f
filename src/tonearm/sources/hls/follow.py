"""The segments of an HLS media playlist in order; a live playlist is read again and again."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.failure import REFUSALS, FailureCode, PlayError
from tonearm.core.printable import text_for_logs
from tonearm.core.source_uri import SourceUri
from tonearm.core.track_info import AudioChoice
from tonearm.sources.hls.files import HlsFiles, PlaylistFile
from tonearm.sources.hls.playlist import MasterPlaylist, MediaPlaylist, MediaSegment, best_audio, parse_hls
from tonearm.sources.playlist import damaged, decode, is_hls, playlist_error
from tonearm.sources.read_ahead import RetryBudget

log = logging.getLogger(__name__)

# RFC 8216, 6.3.3: not less than three target durations from the end, so that the buffer does not underrun.
START_FROM_END_SEGMENTS: Final = 3
_STILL_AFTER_TARGETS: Final = 5
_REST_FOR_SEGMENT_S: Final = 0.0002  # about forty times what parsing it takes
_READ_AGAIN_BYTES_PER_S: Final = 4_000_000
_MOST_LEVELS: Final = 4  # of playlists, the innermost of which has the segments
_FINAL: Final = REFUSALS | {FailureCode.UNSUPPORTED_CODEC, FailureCode.LIMIT_EXCEEDED}


@dataclass(frozen=True, slots=True)
class Stream:
    """A media playlist of `size_bytes`. Its references are relative to `base`. `asked` is the playlist that led to the
    media playlist, and `choice` is the chosen rendition."""

    playlist: MediaPlaylist
    base: SourceUri
    size_bytes: int
    asked: SourceUri
    choice: AudioChoice | None = None

    @property
    def read_again_at_least_s(self) -> float:
        """The shortest time between two reads: parsing a long playlist often would take much of the node's time."""
        return len(self.playlist.segments) * _REST_FOR_SEGMENT_S + self.size_bytes / _READ_AGAIN_BYTES_PER_S


async def find_stream(files: HlsFiles, file: PlaylistFile) -> Stream:
    """The stream of a playlist; of a master playlist the stream with the best sound. Raises `PlayError`."""
    asked, passed = file.asked, {file.uri.normalised}
    choice: AudioChoice | None = None
    for _ in range(_MOST_LEVELS):
        parsed = await parse_in_thread(file.data)
        if isinstance(parsed, MediaPlaylist):
            return Stream(parsed, file.uri, len(file.data), asked, choice)
        best = best_audio(parsed, "" if choice else asked.audio)
        choice = choice or best.choice
        file = await files.playlist(files.linked(file.uri, best.reference))
        if file.uri.normalised in passed:
            message = "The stream's playlists lead to each other in a circle."
            raise playlist_error(FailureCode.LIMIT_EXCEEDED, message, "Correct the playlists.")
        passed.add(file.uri.normalised)
    message = "The stream's playlists lead only to further playlists."
    hint = f"Give an inner playlist instead; they are followed {_MOST_LEVELS - 1} levels deep."
    raise playlist_error(FailureCode.LIMIT_EXCEEDED, message, hint)


async def parse_in_thread(data: bytes) -> MasterPlaylist | MediaPlaylist:
    """`parse_hls` in a thread, since a long playlist would block the event loop. Raises `PlayError`."""
    return await asyncio.to_thread(_parse, data)


def _parse(data: bytes) -> MasterPlaylist | MediaPlaylist:
    text = decode(data)
    if not is_hls(text):  # mostly an error page
        raise damaged("it is not HLS")
    return parse_hls(text)


class SegmentFollower:
    """Gives a reader the segments of `stream`."""

    def __init__(self, files: HlsFiles, stream: Stream) -> None:
        self._files = files
        self._settings = files.settings
        self._stream = stream
        self.retries = RetryBudget(files.settings.live_resume_delays_s)  # of the playlist
        self._read_at_s = asyncio.get_running_loop().time()

    @property
    def base(self) -> SourceUri:
        """The URI that the references of the newest segment are relative to."""
        return self._stream.base

    @property
    def playlist(self) -> MediaPlaylist:
        return self._stream.playlist

    async def segments(self, index: int = 0) -> AsyncGenerator[MediaSegment, None]:
        """The segments of a complete playlist from `index` on. A live playlist's segments begin near its end, and go on
        until the playlist is complete.

        Segments that a live playlist removed before the reader reached them are skipped. Raises `PlayError`.
        """
        if self.playlist.is_complete:
            while index < len(self.playlist.segments):
                yield self.playlist.segments[index]
                index += 1
            return
        number: int | None = None
        while True:
            next_segment = _segment_at(self.playlist.segments, number)
            if next_segment is not None:
                yield next_segment
                number = next_segment.number + 1
                if self._is_old and not self.playlist.is_complete:
                    await self._refresh()
            elif self.playlist.is_complete:
                return
            else:
                await self._await_more(number)

    async def renewed(self, segment: MediaSegment) -> MediaSegment | None:
        """Reads a complete playlist again, because links expire, and returns the segment's new version. None when
        nothing has changed, when the playlist was read just now, or when the new playlist cannot be used."""
        if not self._is_old:
            return None
        before_s, self._read_at_s = self._read_at_s, asyncio.get_running_loop().time()
        try:
            stream = await self._asked_anew()
        except asyncio.CancelledError:
            self._read_at_s = before_s  # after a jump the reader must be able to read it
            raise
        except PlayError as error:
            log.info("a playlist cannot be read again: %s", text_for_logs(error.failure.message))
            return None
        index = segment.number - self.playlist.segments[0].number
        if not stream.playlist.is_complete or len(stream.playlist.segments) != len(self.playlist.segments):
            return None
        before, self._stream = self._stream, stream
        again = stream.playlist.segments[index]
        return None if (again, stream.base) == (segment, before.base) else again

    @property
    def _target_s(self) -> float:
        return max(self.playlist.target_duration_s, self._at_least_s)

    @property
    def _at_least_s(self) -> float:
        return max(self._settings.live_refresh_at_least_s, self._stream.read_again_at_least_s)

    @property
    def _is_old(self) -> bool:
        return asyncio.get_running_loop().time() - self._read_at_s > self._target_s

    async def _await_more(self, number: int | None) -> None:
        """Reads the playlist again until it has a segment `number` or is complete."""
        loop = asyncio.get_running_loop()
        limit_s = max(_STILL_AFTER_TARGETS * self._target_s, self._settings.stall_timeout_s)
        give_up_at_s = loop.time() + limit_s
        due_at_s = self._read_at_s + self._target_s
        while True:
            await asyncio.sleep(max(due_at_s - loop.time(), 0))
            await self._refresh()
            if self.playlist.is_complete or _segment_at(self.playlist.segments, number) is not None:
                return
            if loop.time() > give_up_at_s:
                message = f"The live stream has sent nothing new for {limit_s:.0f} seconds."
                hint = "Try again later; the stream may be over."
                raise playlist_error(FailureCode.CONNECTION_LOST, message, hint)
            due_at_s = loop.time() + max(self._target_s / 2, self._at_least_s)  # RFC 8216, 6.3.4

    async def _refresh(self) -> None:
        """Reads the playlist again, with retries. The retries begin at the URI that was requested, since links expire.
        Raises `PlayError`."""
        read = self._base_anew
        while True:
            try:
                self._stream = await read()
            except PlayError as error:
                if error.failure.code in _FINAL or not await self.retries.wait():
                    raise
                read = self._asked_anew
                log.info("a live playlist cannot be read: %s", text_for_logs(error.failure.message))
            else:
                self._read_at_s = asyncio.get_running_loop().time()
                return

    async def _base_anew(self) -> Stream:
        before = self._stream
        return replace(await find_stream(self._files, await self._files.playlist(before.base)), asked=before.asked)

    async def _asked_anew(self) -> Stream:
        return await find_stream(self._files, await self._files.playlist_anew(self._stream.asked))


def _segment_at(segments: tuple[MediaSegment, ...], number: int | None) -> MediaSegment | None:
    """The segment `number`, None when it is still to come. Without a number: the segment where a live stream begins.

    A stream that counts from the beginning again, or no longer has `number`, begins again. A stream that is only a few
    segments behind its last version does not begin again, since some servers send older versions.
    """
    if not segments:
        return None
    first, last = segments[0].number, segments[-1].number
    if number is None or number < first or number > last + 1 + len(segments):
        return segments[-START_FROM_END_SEGMENTS:][0]
    return segments[number - first] if number <= last else None
