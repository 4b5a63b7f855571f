"""AES-128 of HLS segments (RFC 8216, 4.3.2.4): CBC, padded as PKCS #7 says.

The cipher is that of the libavutil which PyAV brings along. That library alone is loaded, at the first encrypted
segment; it parses nothing. So no further library is needed for what few streams have.
"""

import ctypes
import ctypes.util
import importlib.util
import weakref
from functools import cache
from pathlib import Path
from typing import Final

KEY_BYTES: Final = 16
_BLOCK_BYTES: Final = 16


class Decryptor:
    """Decrypts a segment or a part of a segment, in pieces. The first decryptor loads a library, which may block."""

    def __init__(self, key: bytes, iv: bytes) -> None:
        """Raises `OSError` when the library is not found."""
        self._library = libavutil()
        self._iv = ctypes.create_string_buffer(iv, _BLOCK_BYTES)  # libavutil puts the next one there
        self._cipher = self._library.av_aes_alloc()  # aligned as its instructions need it
        weakref.finalize(self, self._library.av_free, self._cipher)
        self._library.av_aes_init(self._cipher, key, KEY_BYTES * 8, 1)
        self._left = b""

    def update(self, data: bytes) -> bytes:
        """The decrypted bytes of `data`, the next bytes. The last block is kept back, because it ends with padding."""
        data = self._left + data
        count = max(len(data) - 1, 0) // _BLOCK_BYTES
        self._left = data[count * _BLOCK_BYTES :]
        return self._decrypted(data, count)

    def finish(self) -> bytes:
        """The last block without its padding. If the segment was cut off or has no padding, all whole blocks."""
        last = self._decrypted(self._left, len(self._left) // _BLOCK_BYTES)
        padding = last[-1] if last else 0
        is_right = 1 <= padding <= _BLOCK_BYTES and last.endswith(bytes([padding]) * padding)
        return last[:-padding] if is_right else last

    def _decrypted(self, data: bytes, count: int) -> bytes:
        if not count:
            return b""
        plain = ctypes.create_string_buffer(count * _BLOCK_BYTES)
        self._library.av_aes_crypt(self._cipher, plain, data, count, self._iv, 1)
        return plain.raw


@cache
def libavutil() -> ctypes.CDLL:
    """The library, loaded once. Raises `OSError`."""
    library = ctypes.CDLL(_path_oflibavutil())
    cipher, buffer, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    library.av_aes_alloc.restype = cipher
    library.av_aes_init.argtypes = [cipher, buffer, number, number]
    library.av_aes_crypt.argtypes = [cipher, buffer, buffer, number, buffer, number]
    library.av_aes_crypt.restype = library.av_free.restype = None
    library.av_free.argtypes = [cipher]
    return library


def _path_oflibavutil() -> str:
    """The path of libavutil: beside or in the package for PyAV's wheels, otherwise the system's library."""
    spec = importlib.util.find_spec("av")
    package = Path(spec.origin or "").parent if spec is not None else Path()
    for folder in (package.parent / "av.libs", package / ".dylibs"):
        for path in sorted(folder.glob("*avutil*")):
            return str(path)
    found = ctypes.util.find_library("avutil")
    if found is None:
        raise OSError("libavutil was not found")
    return found
