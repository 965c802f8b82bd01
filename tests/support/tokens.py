"""Access tokens for tests: keys, and JSON Web Tokens that are signed with them, right or wrong in every part.

They are put together by hand, because a library would refuse to make most of those that a server must refuse.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

RESOURCE = "https://site.example/mcp"
"""The audience of the tokens, where a test does not say another."""


def base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def encoded(part: Any) -> str:
    """A part of a token: bytes as they are, anything else as JSON."""
    return base64url(part if isinstance(part, bytes) else json.dumps(part).encode())


@cache
def private_key(alg: str, number: int = 0, bits: int = 2048) -> PrivateKey:
    """A key for an algorithm; the same one for the same number, because RSA keys take long to make."""
    if alg.startswith("ES"):
        return ec.generate_private_key(ec.SECP256R1())
    if alg.startswith("Ed"):
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, bits)


@dataclass(frozen=True)
class Signer:
    """A key of an authorization server, and its name there."""

    kid: str
    alg: str = "RS256"
    key: PrivateKey = field(default_factory=lambda: private_key("RS256"))

    def jwk(self, *, private: bool = False, **members: Any) -> dict[str, Any]:
        """The key as its authorization server publishes it; with other members, or without those that are ``None``."""
        kind: Any = {"RS": RSAAlgorithm, "PS": RSAAlgorithm, "ES": ECAlgorithm, "Ed": OKPAlgorithm}[self.alg[:2]]
        published = kind.to_jwk(self.key if private else self.key.public_key(), as_dict=True)
        named = {**published, "kid": self.kid, "alg": self.alg, "use": "sig", **members}
        return {name: value for name, value in named.items() if value is not None and name != "key_ops"}

    def token(self, claims: Any, **header: Any) -> str:
        """Sign claims, or any other payload; with these members in the header, without those that are ``None``."""
        members = {"alg": self.alg, "typ": "at+jwt", "kid": self.kid, **header}
        return self.signed({name: value for name, value in members.items() if value is not None}, claims)

    def signed(self, header: Any, payload: Any) -> str:
        """Sign a header as it is."""
        content = f"{encoded(header)}.{encoded(payload)}"
        return f"{content}.{base64url(self.sign(content.encode()))}"

    def sign(self, content: bytes) -> bytes:
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            r, s = decode_dss_signature(self.key.sign(content, ec.ECDSA(SHA256())))
            return r.to_bytes(32, "big") + s.to_bytes(32, "big")
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            return self.key.sign(content)
        if self.alg.startswith("PS"):
            return self.key.sign(content, padding.PSS(padding.MGF1(SHA256()), 32), SHA256())
        return self.key.sign(content, padding.PKCS1v15(), SHA256())

    @property
    def pem(self) -> bytes:
        return self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def hmac_token(secret: bytes, claims: Any, **header: Any) -> str:
    """Sign claims with a secret, as nobody should who has only a public key."""
    content = f"{encoded({'alg': 'HS256', 'typ': 'at+jwt', **header})}.{encoded(claims)}"
    return f"{content}.{base64url(hmac.new(secret, content.encode(), hashlib.sha256).digest())}"


def make_claims(issuer: str, **changes: Any) -> dict[str, Any]:
    """The claims of a good token of Ada, with changes; without those that are ``None``."""
    now = int(time.time())
    claims: Mapping[str, Any] = {
        "iss": issuer,
        "aud": RESOURCE,
        "sub": "ada",
        "client_id": "client-of-ada",
        "iat": now,
        "exp": now + 3600,
        "scope": "articles:read",
        "jti": f"{time.monotonic_ns()}",
        **changes,
    }
    return {name: value for name, value in claims.items() if value is not None}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
