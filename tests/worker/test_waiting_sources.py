"""What a source costs a decoder process that only waits for bytes: a thread, and the address space of its stack."""

import ctypes
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.sandbox.test_every_format import damaged, formats
from tests.support.audio_files import music
from tests.support.decoder_driver import DecoderDriver, running_decoder
from tests.support.media_files import decode_rest, open_bytes
from tonearm.core.failure import PlayError
from tonearm.worker.packets.mp3 import Mp3Encoder
from tonearm.worker.process import THREAD_STACK_BYTES

SOURCES = 200
MOST_BYTES_EACH = 384 * 1024
_PAGE_BYTES = 4096


def address_space_bytes(driver: DecoderDriver) -> int:
    return int(Path(f"/proc/{driver.pid}/statm").read_text().split()[0]) * _PAGE_BYTES


def test_a_thousand_that_wait_fit_into_a_process() -> None:
    with running_decoder() as driver:
        threads, before = driver.threads(), address_space_bytes(driver)
        for session in range(1, SOURCES + 1):
            driver.open_session(session)
            driver.open_bytes(b"", session, feed=lambda request: None)
        driver.wait_until(lambda: driver.threads() == threads + SOURCES)
        assert address_space_bytes(driver) - before < SOURCES * MOST_BYTES_EACH


def stack_used_bytes(work: Callable[[], None]) -> int:
    """How far down a thread's stack was written to by `work`, to a page."""
    libc = ctypes.CDLL(None)
    libc.pthread_self.restype = ctypes.c_void_p
    used: list[int] = []

    def run() -> None:
        work()
        attributes, address, size = ctypes.create_string_buffer(256), ctypes.c_void_p(), ctypes.c_size_t()
        libc.pthread_getattr_np(ctypes.c_void_p(libc.pthread_self()), attributes)
        libc.pthread_attr_getstack(attributes, ctypes.byref(address), ctypes.byref(size))
        with open("/proc/self/pagemap", "rb") as pagemap:
            pagemap.seek((address.value or 0) // _PAGE_BYTES * 8)
            pages = struct.unpack(f"<{size.value // _PAGE_BYTES}Q", pagemap.read(size.value // _PAGE_BYTES * 8))
        untouched = next(number for number, page in enumerate(pages) if page >> 62)  # present, or swapped out
        used.append((len(pages) - untouched) * _PAGE_BYTES)

    before = threading.stack_size(8 * 1024 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    return used[0]


def test_no_format_comes_near_the_end_of_a_stack() -> None:
    """A new version of a library may need more. Beyond the end the process dies."""

    files = [file for _, file in (*formats(), *damaged(0), *damaged(20))]  # made here: encoders use more
    pcm = np.ascontiguousarray((music(1.0) * 32767).astype("<i2")).tobytes()

    def decode_all() -> None:
        for file in files:
            try:
                media = open_bytes(file)
            except PlayError:
                continue
            try:
                decode_rest(media)
            except PlayError:
                pass
            finally:
                media.close()

    def encode() -> None:
        Mp3Encoder(320_000).encode(pcm)

    assert 4096 < stack_used_bytes(decode_all) < THREAD_STACK_BYTES // 2
    assert 4096 < stack_used_bytes(encode) < THREAD_STACK_BYTES // 2
