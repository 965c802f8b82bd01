"""``prompts/list`` and ``prompts/get``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..calls import PROMPT
from ..envelope import Prepared
from ..errors import MethodNotFound, UnknownPrompt
from .listing import arguments_in, list_page, text_in
from .session import Session
from .spelling import downgrade_block, spell_prompt


def list_prompts(session: Session, params: Mapping[str, Any]) -> Prepared:
    return list_page(session, params, session.core.prompts, "prompts", spell_prompt)


def get_prompt(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    """Make the messages of a prompt.

    :raises UnknownPrompt: when there is none, or none this caller may know of.
    """
    name = text_in(params, "name")
    try:
        said = session.core.dispatcher.invoke(session.call(PROMPT, name, arguments_in(params))).value
    except MethodNotFound as error:
        raise UnknownPrompt(name, sign_in=session.caller.may_sign_in) from error
    messages = [
        {**message, "content": downgrade_block(message["content"], session.version)} for message in said["messages"]
    ]
    return {**said, "messages": messages}
