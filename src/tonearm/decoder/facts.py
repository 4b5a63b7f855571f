"""What opening a source told, as tracks show it."""

from tonearm.core.track_info import SourceFacts
from tonearm.decoder.formats import probe_name
from tonearm.decoder.opening import OpenedAudio
from tonearm.decoder.tags import read_tags

_MICROSECONDS_PER_MS = 1000


def source_facts(opened: OpenedAudio, *, size_bytes: int | None, is_seekable: bool, is_live: bool) -> SourceFacts:
    length_ms = 0 if is_live else _length_ms(opened)
    tags = read_tags(opened.container.metadata, opened.stream.metadata)
    return SourceFacts(
        length_ms=length_ms,
        is_seekable=is_seekable and length_ms > 0 and not is_live,
        is_stream=is_live,
        title=tags.title,
        author=tags.author or "",
        isrc=tags.isrc,
        artwork_url=tags.artwork_url,
        probe_name=probe_name(opened.container.format.name),
    )


def _length_ms(opened: OpenedAudio) -> int:
    stream, container = opened.stream, opened.container
    if stream.duration is not None and stream.duration > 0:
        time_base = stream.time_base
        assert time_base is not None
        return stream.duration * time_base.numerator * 1000 // time_base.denominator
    if container.duration is not None and container.duration > 0:
        return container.duration // _MICROSECONDS_PER_MS
    return 0
