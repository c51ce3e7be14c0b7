"""Certificates for tests: a certificate authority that issues them."""

import datetime
import ipaddress
import os
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_PEM = serialization.Encoding.PEM
_ADDRESS = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
_USAGES = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])


class Pair(NamedTuple):
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    @property
    def common_name(self) -> str:
        return common_name(ssl.PEM_cert_to_DER_cert(self.certificate.decode()))

    def write(self, folder: Path, name: str = "server") -> tuple[str, str]:
        """Replace the files of a pair atomically; return the paths of certificate and key."""
        paths = folder / f"{name}.pem", folder / f"{name}.key"
        for path, content in zip(paths, self, strict=True):
            replace_file(path, content)
        return str(paths[0]), str(paths[1])


class Authority:
    """A certificate authority."""

    def __init__(self, name: str = "Test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self._name, self._key, days=30, is_ca=True)

    def issue(
        self, name: str = "localhost", *, days: int = 30, passphrase: bytes | None = None, host: str = "localhost"
    ) -> Pair:
        """Issue a certificate for this machine under a host name, for servers and clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        encryption = (
            serialization.NoEncryption() if passphrase is None else serialization.BestAvailableEncryption(passphrase)
        )
        key_text = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption)
        return Pair(self._sign(subject, key, days=days, is_ca=False, host=host), key_text)

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int, is_ca: bool, host: str = ""
    ) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        own_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=90))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(own_key, critical=False)
        )
        if is_ca:
            usage = x509.KeyUsage(
                digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
                key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
                decipher_only=False,
            )  # fmt: skip
            builder = builder.add_extension(usage, critical=True)
        else:
            names = x509.SubjectAlternativeName([x509.DNSName(host), _ADDRESS])
            builder = builder.add_extension(names, critical=False).add_extension(_USAGES, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM)

    def client_context(self, pair: Pair | None = None, folder: Path | None = None) -> ssl.SSLContext:
        """Return a context that trusts this authority, with a client certificate if one is given."""
        context = ssl.create_default_context(cadata=self.certificate.decode())
        if pair is not None:
            assert folder is not None
            context.load_cert_chain(*pair.write(folder, "client"))
        return context


def replace_file(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes(content)
    os.chmod(draft, 0o600)  # noqa: PTH101
    draft.replace(path)


def common_name(certificate: bytes) -> str:
    """Return the common name of a certificate in DER."""
    (found,) = x509.load_der_x509_certificate(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found.value)
