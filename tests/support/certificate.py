"""Certificates that nobody has signed, for localhost and 127.0.0.1. Made for these tests; their keys guard nothing."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM: Final = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg5yLCBjSWAfWy/04a
diUpvUzmEJd5WVCHX8Z7fhQHAluhRANCAAR22JlZ3YWgLn2XFJvqDfMFJWbw7CjR
iFMy1BaMdIEHJAnPdy/Wqv9fykivJ3EWWRriDTAibPqf1ymix+KDDA03
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUK2005oMePrDAmw5vZV8tX99rmQMwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTAyMTczMFoYDzIxMjYxMDI4
MDIxNzMwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAR22JlZ3YWgLn2XFJvqDfMFJWbw7CjRiFMy1BaMdIEHJAnPdy/Wqv9f
ykivJ3EWWRriDTAibPqf1ymix+KDDA03o28wbTAdBgNVHQ4EFgQUkzX5ZzguoKeT
3ElK7zgC1v4on6EwHwYDVR0jBBgwFoAUkzX5ZzguoKeT3ElK7zgC1v4on6EwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDRwAwRAIgDvEN8SYBZQY+hFwBB1gs6p62LDxZfgJ0pGJf9zjHRBoCIDyt
R6nz5R+dQuUlclGHK0mABR+t1tR32Oq6nBntTvjK
-----END CERTIFICATE-----
"""


def unsigned_certificate(folder: Path) -> ssl.SSLContext:
    """A server's TLS context whose certificate no client trusts; `folder` holds its file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file(folder))
    return context


def certificate_file(folder: Path) -> Path:
    """The certificate and its key in one file in `folder`."""
    pem = folder / "unsigned.pem"
    pem.write_text(_PEM)
    return pem


def trusting_client() -> ssl.SSLContext:
    """A client's TLS context that trusts this certificate, and no other one."""
    context = ssl.create_default_context(cadata=_PEM[_PEM.index("-----BEGIN CERTIFICATE") :])
    context.check_hostname = False
    return context


def make_certificate(path: Path) -> Path:
    """Another one at each call: a key and a certificate for 127.0.0.1, in one file; for `SSL_CERT_FILE`, too."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "voice.test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
