"""Where the server listens and who may ask: judged before it opens a port."""

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from trainer.errors import ConfigError

# A shorter token can be guessed.
LEAST_TOKEN_LENGTH = 16


@dataclass(frozen=True)
class Place:
    """Address, port (0: any free one), the token that clients must give, and the certificate; None: without."""

    address: str
    port: int
    token: str | None = None
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/"


def place(address: str, port: int, token_file: Path | None, certificate: Path | None, key: Path | None) -> Place:
    """ConfigError when one of them cannot be right."""
    return Place(_private(address), port, token_file and _token(token_file), _tls(certificate, key))


def _private(text: str) -> str:
    """Loopback, private or link-local: not the internet, and not all addresses at once."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise ConfigError(f"--address must be an IP address, got {text!r}") from None
    plain = getattr(address, "ipv4_mapped", None) or address
    if not plain.is_private or plain.is_unspecified:
        raise ConfigError(f"--address must be a loopback or private address, got {text}")
    return text


def _token(path: Path) -> str:
    try:
        token, mode = path.read_text(encoding="ascii").strip(), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file must be a readable file of ASCII text, got {path}: {error}") from None
    if mode & 0o004:
        raise ConfigError(f"--token-file must not be readable by everybody, got {path} with mode {mode & 0o777:o}")
    if len(token) < LEAST_TOKEN_LENGTH or not token.isprintable() or any(map(str.isspace, token)):
        raise ConfigError(
            f"--token-file must hold one word of at least {LEAST_TOKEN_LENGTH} characters, got {len(token)} characters "
            f"in {path}"
        )
    return token


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        given = "--tls-certificate" if certificate else "--tls-key"
        raise ConfigError(f"--tls-certificate and --tls-key must be given together, got only {given}")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password="")  # never asks at a terminal
    except (OSError, ValueError) as error:
        raise ConfigError(f"--tls-certificate and --tls-key must be a PEM pair without a password, got {certificate} "
                          f"and {key}: {error}") from None  # fmt: skip
    return context
