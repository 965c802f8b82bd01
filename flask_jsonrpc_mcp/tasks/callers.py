"""The caller of a task: who may see it, and who it is in the worker, found by name. No credentials.

In the worker, a caller has only permissions that they had when they called, and still have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..auth import Authenticator, Caller, identity_of
from ..errors import RpcError
from .records import TaskRecord


def store_caller(caller: Caller, auth: Authenticator) -> dict[str, Any]:
    """Return what is stored of a caller, to find them again.

    :raises RpcError: if the worker could not find this user.
    """
    stored = {
        "user": caller.name,
        "scheme": caller.scheme,
        "permissions": sorted(caller.permissions),
        "scopes": None if caller.scopes is None else sorted(caller.scopes),
    }
    if caller.user is None:  # anonymous, or the developer on the command line
        return stored
    loaded = auth.load_user(caller.name, str(caller.scheme))
    identity = identity_of(caller.user)
    if loaded is None or identity is None or identity_of(loaded[0]) != identity:
        raise RpcError(
            "This tool runs in a worker, which cannot load the user by name: register a function with @rpc.user_loader"
            " that returns the same user as the sign-in",
            code=-32603,
        )
    grants = [each.current_grant() for each in auth.sign_ins if each.grants_scopes and caller.scopes is not None]
    return {**stored, "identity": list(identity), "grant": next(iter(grants), None)}


def may_see(caller: Caller, record: TaskRecord) -> bool:
    """Whether a caller may see a task: their own, or an anonymous one, with all scopes of the token that created it.

    A task that was created before scopes applied is not for access tokens.
    """
    if record.owner not in ("", caller.principal):
        return False
    scopes = record.caller["scopes"]
    return caller.scopes is None or (scopes is not None and caller.scopes.issuperset(scopes))


def restore_caller(record: TaskRecord, auth: Authenticator) -> Caller | None:
    """Return the caller of a task, and set the current user.

    :returns: ``None`` if the user is gone, or is another one now, or has revoked the grant of the client.
    """
    stored, address = record.caller, record.address
    if stored["scheme"] is None:
        caller = auth.anonymous(address)
    elif "identity" not in stored:
        auth.set_user(None)
        caller = Caller(permissions=frozenset(stored["permissions"]), address=address)
    else:
        loaded = auth.load_user(stored["user"], stored["scheme"])
        if loaded is None or identity_of(loaded[0]) != tuple(stored["identity"]):
            return None
        grant = stored.get("grant")
        if grant is not None and not all(each.grant_holds(grant) for each in auth.sign_ins):
            return None
        user, permissions = loaded
        auth.set_user(user)
        caller = Caller(user, permissions=permissions, address=address)
    known = stored_caller(record)
    return replace(known, user=caller.user, permissions=caller.permissions & known.permissions)


def stored_caller(record: TaskRecord) -> Caller:
    """Return the caller of a task as stored, without the user."""
    stored = record.caller
    return Caller(
        name=stored["user"],
        scheme=stored["scheme"],
        permissions=frozenset(stored["permissions"]),
        principal=record.owner,
        address=record.address,
        scopes=None if stored["scopes"] is None else frozenset(stored["scopes"]),
    )
