"""The TLS certificates of the HTTP server: read from files, and read again when the files change."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final, NoReturn

from hubbub.errors import SettingsError

logger = logging.getLogger("hubbub.http")

_CERTIFICATE_MARK: Final = b"-----BEGIN CERTIFICATE-----"
_KEY_MARK: Final = b"PRIVATE KEY-----"
_CERT_FLAG: Final = "--tls-cert-file"
_KEY_FLAG: Final = "--tls-key-file"
_CA_FLAG: Final = "--tls-client-ca-file"
_CERT_HAS_EXPIRED: Final = 10
"""OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED."""
_FileState = tuple[int, int, int, int] | None


class TlsFiles:
    """The certificate and key of a server, and the CA of its clients if they need certificates.

    Raises: SettingsError, if the files cannot be used.
    """

    def __init__(self, cert_file: str, key_file: str | None = None, client_ca_file: str | None = None) -> None:
        self._cert_file = cert_file
        self._key_file = key_file or cert_file
        self._client_ca_file = client_ca_file
        self._handled_states = self._failed_states = self._read_states()
        self.context = self._make_context()
        """For new connections; replaced when the files change."""

    def reload_if_changed(self) -> None:
        """Load files that have changed; called once a second. If they cannot be used, the previous ones stay in force.

        Certificate and key are usually written one after the other, so an error is logged only if it is still there
        at the next call, and only once.
        """
        states = self._read_states()
        if states == self._handled_states:
            return
        try:
            context = self._make_context()
        except SettingsError as error:
            if states == self._failed_states:
                self._handled_states = states
                logger.error("the new TLS files are not used, the previous ones stay in force: %s", error.message)
            self._failed_states = states
            return
        self.context = context
        self._handled_states = self._failed_states = states
        logger.info("tls_reloaded", extra={"path": self._cert_file})

    def _read_states(self) -> tuple[_FileState, ...]:
        """Return values that change when a file is written or replaced, or when its path leads to another file."""
        return tuple(map(_read_state, (self._cert_file, self._key_file, self._client_ca_file)))

    def _make_context(self) -> ssl.SSLContext:
        cert_file, key_file, ca_file = self._cert_file, self._key_file, self._client_ca_file
        _check_content(cert_file, _CERT_FLAG, _CERTIFICATE_MARK, "certificate")
        _check_content(key_file, _CERT_FLAG if key_file == cert_file else _KEY_FLAG, _KEY_MARK, "private key")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(cert_file, key_file, password=lambda: _refuse_encrypted(key_file))
        except (ssl.SSLError, OSError) as error:
            raise _load_error(cert_file, key_file, error) from None
        if ca_file is not None:
            _check_content(ca_file, _CA_FLAG, _CERTIFICATE_MARK, "certificate")
            try:
                context.load_verify_locations(cafile=ca_file)
            except (ssl.SSLError, OSError) as error:
                reason = _format_reason(error)
                raise SettingsError(f"{_CA_FLAG}: {ca_file} cannot be used: {reason}; name a valid PEM file") from None
            context.verify_mode = ssl.CERT_REQUIRED
        if _is_expired(context, cert_file):
            logger.warning("the TLS certificate in %s has expired, so clients will refuse it; renew it", cert_file)
        return context


def _read_state(path: str | None) -> _FileState:
    if path is None:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _check_content(path: str, flag: str, mark: bytes, content: str) -> None:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(
            f"{flag}: cannot read {path}: {error.strerror or error}; name a readable PEM file with the {content}"
        ) from None
    if mark in data:
        return
    if content == "private key" and flag == _CERT_FLAG:
        raise SettingsError(
            f"{flag}: {path} has no private key; add it to this file, or name its file with {_KEY_FLAG}"
        )
    raise SettingsError(f"{flag}: {path} has no {content} in PEM format; name a file with one")


def _refuse_encrypted(key_file: str) -> NoReturn:
    raise SettingsError(
        f"{_KEY_FLAG}: the private key in {key_file} is encrypted; decrypt it with `openssl pkey -in {key_file} "
        "-out FILE`, make FILE readable for this user only, and name it"
    )


def _load_error(cert_file: str, key_file: str, error: OSError) -> SettingsError:
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return SettingsError(
            f"{_KEY_FLAG}: the private key in {key_file} does not belong to the first certificate in {cert_file}; "
            "name the key that it was issued for, and put the server's own certificate first"
        )
    files = cert_file if key_file == cert_file else f"{cert_file} and {key_file}"
    return SettingsError(f"{_CERT_FLAG}: {files} cannot be used: {_format_reason(error)}; name valid PEM files")


def _format_reason(error: OSError) -> str:
    reason: str | None = getattr(error, "reason", None)
    return reason.replace("_", " ").lower() if reason else error.strerror or str(error)


def _is_expired(server: ssl.SSLContext, cert_file: str) -> bool:
    """Whether the certificate has expired, according to a handshake in memory with a client that trusts it."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        client.load_verify_locations(cafile=cert_file)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = (client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True))
        for end in (*ends, ends[0]):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    except ssl.SSLError as error:
        return getattr(error, "verify_code", 0) == _CERT_HAS_EXPIRED
    return False
