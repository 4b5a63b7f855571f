"""AES-128 in CBC, by vectors of others."""

from tests.support.hls import encrypted
from tonearm.sources.hls.decryption import Decryptor

# NIST SP 800-38A, F.2.2 (CBC-AES128.Decrypt).
KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
IV = bytes(range(16))
CIPHER = bytes.fromhex(
    "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"
    "73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7"
)
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)


def decrypted(cipher: bytes, step: int) -> bytes:
    decryptor = Decryptor(KEY, IV)
    return b"".join(decryptor.update(cipher[at : at + step]) for at in range(0, len(cipher), step)) + decryptor.finish()


def test_the_vector_of_nist_in_pieces_of_any_size() -> None:
    assert encrypted(PLAIN, KEY, IV)[:64] == CIPHER
    for step in (1, 15, 16, 17, 1000):
        assert decrypted(encrypted(PLAIN, KEY, IV), step) == PLAIN


def test_endings() -> None:
    """RFC 8216, 4.3.2.4: PKCS #7. What ends otherwise was cut off, or not padded."""
    for plain in (b"", b"x" * 16):
        assert decrypted(encrypted(plain, KEY, IV), 1000) == plain
    for cipher, plain in ((CIPHER, PLAIN), (CIPHER[:33], PLAIN[:32]), (b"", b""), (b"short", b"")):
        assert decrypted(cipher, 1000) == plain
