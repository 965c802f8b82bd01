"""``resources/list``, ``resources/templates/list`` and ``resources/read``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..calls import RESOURCE
from ..envelope import Prepared
from ..errors import MethodNotFound, UnknownResource
from ..resources import Resource
from . import protocol
from .listing import list_page, text_in
from .session import Session
from .spelling import spell_resource

NOT_FOUND_BEFORE = -32002
"""What an unknown resource was before 2026-07-28, which knows it as invalid params."""


def list_resources(session: Session, params: Mapping[str, Any]) -> Prepared:
    return list_page(session, params, session.core.resources.fixed, "resources", spell_resource)


def list_templates(session: Session, params: Mapping[str, Any]) -> Prepared:
    return list_page(session, params, session.core.resources.templates, "resourceTemplates", spell_resource)


def read_resource(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    """Read what is under a URI.

    :raises UnknownResource: when there is nothing, or nothing this caller may know of.
    """
    uri = text_in(params, "uri")
    try:
        result = session.core.dispatcher.invoke(session.call(RESOURCE, uri, {}))
    except MethodNotFound as error:
        raise _unknown(session, uri) from error
    contents = {"contents": result.value}
    return {**contents, "ttlMs": result.max_age * 1000} if session.version == protocol.MODERN else contents


def visible_resource(session: Session, params: Mapping[str, Any]) -> Resource:
    """Find what gives the contents of a URI.

    :raises UnknownResource: when there is nothing, or nothing this caller may know of.
    """
    uri = text_in(params, "uri")
    try:
        return session.core.resources.find(uri, session.caller)
    except MethodNotFound as error:
        raise _unknown(session, uri) from error


def _unknown(session: Session, uri: str) -> UnknownResource:
    code = None if session.version == protocol.MODERN else NOT_FOUND_BEFORE
    return UnknownResource(uri, sign_in=session.caller.may_sign_in, code=code)
