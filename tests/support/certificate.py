"""Certificates that nobody has signed, for localhost and 127.0.0.1."""

import ssl
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def unsigned_certificate(folder: Path) -> ssl.SSLContext:
    """A server's TLS context whose certificate no client trusts; `folder` holds its file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file(folder))
    return context


def certificate_file(folder: Path) -> Path:
    """The certificate and its key in one file in `folder`."""
    pem = folder / "unsigned.pem"
    pem.write_text(_kept())
    return pem


def trusting_client() -> ssl.SSLContext:
    """A client's TLS context that trusts this certificate, and no other one."""
    context = ssl.create_default_context(cadata=_kept()[_kept().index("-----BEGIN CERTIFICATE") :])
    context.check_hostname = False
    return context


def make_certificate(path: Path) -> Path:
    """Another one at each call: a key and a certificate for 127.0.0.1, in one file; for `SSL_CERT_FILE`, too."""
    path.write_text(_made())
    return path


@cache
def _kept() -> str:
    return _made()


def _made() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=30))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    form = serialization.Encoding.PEM
    private = key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return (private + certificate.public_bytes(form)).decode()
