"""OAuth checks of ``flask mcp doctor``: the authorization servers, and the metadata that clients find at this app."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .authorization_server import ServerFailure, discover, endpoint_in, fetch

Problem = tuple[str, str]
"""The slug of a check, and why it matters."""


def check_issuers(issuers: Iterable[str], *, fetches_keys: bool) -> Iterator[Problem]:
    """Check that clients can sign in at the authorization servers, and that we can verify their tokens."""
    for issuer in issuers:
        try:
            metadata = discover(issuer)
            if fetches_keys and not _has_keys(fetch(endpoint_in(metadata, "jwks_uri")).members):
                yield "oauth-issuer", f"{issuer} publishes no key that can verify signatures, so every token is refused"
        except (ServerFailure, ValueError) as failure:
            yield "oauth-issuer", f"{issuer} cannot be used by clients: {failure}"
        else:
            yield from _check_clients(issuer, metadata)


def _has_keys(jwks: Mapping[str, Any]) -> bool:
    from .keys import import_keys  # see `resource`

    return bool(import_keys(jwks))


def _check_clients(issuer: str, metadata: Mapping[str, Any]) -> Iterator[Problem]:
    if "S256" not in (metadata.get("code_challenge_methods_supported") or ()):
        why = "its code_challenge_methods_supported lacks 'S256'"
        yield "oauth-clients", f"MCP clients refuse {issuer}, because it does not announce PKCE with S256: {why}"
    reads_documents = metadata.get("client_id_metadata_document_supported") is True
    if not reads_documents and "registration_endpoint" not in metadata:
        why = "it has neither client id metadata documents nor dynamic registration"
        yield "oauth-clients", f"{issuer} accepts only clients that you register by hand: {why}"
    elif "none" not in (metadata.get("token_endpoint_auth_methods_supported") or ()):
        why = "its token_endpoint_auth_methods_supported lacks 'none'"
        yield "oauth-clients", f"{issuer} does not accept clients without a secret, which most MCP clients are: {why}"


def check_public_url(public_url: str | None, path: str | None) -> Iterator[Problem]:
    """Check that clients find the metadata of a blueprint at the URL of RFC 9728, section 3.1.

    :param path: The path of its MCP endpoint; ``None`` if it has variables.
    """
    if public_url is None:
        yield "oauth-public-url", "the public URL of this app is not known, so access tokens work for localhost only"
    if public_url is None or path is None:
        return
    if public_url.endswith(path):
        yield (
            "oauth-public-url",
            f"the public URL must not end in {path}, which is added to it: clients would use {public_url}{path}",
        )
        return
    scheme, _, rest = public_url.partition("://")
    host, slash, mounted = rest.partition("/")
    url = f"{scheme}://{host}/.well-known/oauth-protected-resource{slash}{mounted}{path}"
    try:
        found = fetch(url).members.get("resource")
    except ServerFailure as failure:
        yield "oauth-metadata", f"clients do not find this app at the URL of RFC 9728: {failure}"
        return
    if found != public_url + path:
        yield "oauth-metadata", f"{url} describes the resource {found!r}, not {public_url + path!r}"
