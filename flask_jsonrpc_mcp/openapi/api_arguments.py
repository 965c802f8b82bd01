"""The input schema of an operation, and where each argument goes in the request to its endpoint."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

from werkzeug.datastructures import FileStorage, MultiDict

from ..errors import InvalidParams
from ..problems import Problem, pointer
from ..schema.walk import object_schema
from ..strict_json import write
from .operations import Operation, SchemaReader

PRECONDITIONS = ("If-Match", "If-None-Match")
"""The request headers that are arguments. The others are the caller's own, which are passed on."""

BODY = "body"
"""The argument that is the whole body, if its members cannot be arguments of their own."""

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"

_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
_VARIABLE = re.compile(r"\{([^{}]+)\}")
_SEPARATORS = {"csv": ",", "ssv": " ", "tsv": "\t", "pipes": "|", "spaceDelimited": " ", "pipeDelimited": "|"}
# Keywords because of which the members of a body cannot stand beside other arguments.
_NOT_PLAIN = ("allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "minProperties", "maxProperties", "$ref")

FILE = object_schema(
    {
        "filename": {"type": "string", "description": "The name of the file, such as cover.png"},
        "content": {"type": "string", "contentEncoding": "base64", "description": "The file in base64"},
    },
    ["content"],
    closed=True,
)


@dataclass(frozen=True)
class Parameter:
    """An argument outside of the body.

    :param name: Its name in the request.
    :param place: ``path``, ``query`` or ``header``.
    :param style: How an array or an object is written: ``multi``, ``deepObject``, ``json``, or a separator.
    """

    name: str
    place: str
    style: str = "multi"

    def pairs(self, value: Any) -> Iterator[tuple[str, str]]:
        """Write a value as parameters of a query string."""
        if isinstance(value, Mapping) and self.style != "json":
            for key, inner in value.items():
                yield (f"{self.name}[{key}]" if self.style == "deepObject" else key), as_text(inner)
        elif isinstance(value, list) and self.style in ("multi", "deepObject"):
            yield from ((self.name, as_text(item)) for item in value)
        else:
            yield self.name, self.text(value)

    def text(self, value: Any) -> str:
        """Write a value as one text."""
        if isinstance(value, list) and self.style != "json":
            return (self.style if self.style in _SEPARATORS.values() else ",").join(map(as_text, value))
        return as_text(value)


@dataclass(frozen=True)
class Body:
    """The request body.

    :param members: The arguments that are its members, with their names in it; ``None`` if `BODY` is all of it.
    """

    media_type: str
    members: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Arguments:
    """The arguments of an operation.

    :param schema: The input schema of the tool.
    :param parameters: By the name of the argument.
    :param left_out: The parameters that are not arguments, such as other headers.
    """

    schema: dict[str, Any]
    parameters: Mapping[str, Parameter]
    body: Body | None = None
    left_out: tuple[str, ...] = ()

    def in_path(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the variables of the path: numbers as they are, others as texts."""
        return {
            each.name: value if isinstance(value, (int, float)) else each.text(value)
            for each, value in self._given(arguments, "path")
        }

    def send_to(self, path: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Build the request for a path, as the arguments of werkzeug's ``EnvironBuilder``.

        :raises InvalidParams: if a file is not base64, or a header is not ASCII.
        """
        query = [pair for each, value in self._given(arguments, "query") for pair in each.pairs(value)]
        return {
            "path": path,
            "query_string": urlencode(query),
            "headers": {each.name: _header(each, value) for each, value in self._given(arguments, "header")},
            **({} if self.body is None else _body_of(self.body, arguments)),
        }

    def _given(self, arguments: Mapping[str, Any], place: str) -> Iterator[tuple[Parameter, Any]]:
        for name, each in self.parameters.items():
            if each.place == place and name in arguments and (arguments[name] is not None or each.style == "json"):
                yield each, arguments[name]


def read_arguments(operation: Operation) -> Arguments:
    """Read the parameters and the body of an operation.

    :raises ValueError: if the operation cannot be a tool, saying why.
    """
    reader = SchemaReader(operation.document)
    properties: dict[str, Any] = {}
    required: list[str] = []
    parameters: dict[str, Parameter] = {}
    left_out: list[str] = []
    form: dict[str, Any] = {}
    body: Mapping[str, Any] | None = None
    for declared in map(reader.resolve, operation.spec.get("parameters", ())):
        if not isinstance(declared, Mapping) or not isinstance(declared.get("name"), str):
            continue
        name, place = declared["name"], declared.get("in")
        if place == "body":
            body = {"content": {_media_type(operation): declared}, "required": declared.get("required", False)}
        elif place == "formData":
            form[name] = declared
        elif place in ("path", "query") or (place == "header" and name.title() in PRECONDITIONS):
            argument = _argument_name(name, properties)
            properties[argument] = _parameter_schema(declared, reader)
            parameters[argument] = Parameter(name, place, _style_of(declared))
            if declared.get("required") or place == "path":
                required.append(argument)
        else:
            left_out.append(name)
    for name in _VARIABLE.findall(operation.path):
        if not any(each.place == "path" and each.name == name for each in parameters.values()):
            raise ValueError(f"it does not describe the variable {{{name}}} of its path")
    if form:
        files = any(each.get("type") == "file" for each in form.values())
        schema = {
            "type": "object",
            "properties": {name: _without_place(each) for name, each in form.items()},
            "required": [name for name, each in form.items() if each.get("required")],
        }
        body = {"content": {MULTIPART if files else FORM: {"schema": schema}}, "required": True}
    body = body or reader.resolve(operation.spec.get("requestBody"))
    sent_as = None
    if body:
        sent_as = _read_body(body, reader, properties, required)
    described = object_schema(properties, required, closed=True)
    return Arguments(reader.finish(described), parameters, sent_as, tuple(left_out))


def _media_type(operation: Operation) -> str:
    consumed = operation.spec.get("consumes") or operation.document.get("consumes") or ["application/json"]
    return str(next(filter(_JSON.match, consumed), consumed[0]))


def _argument_name(name: str, taken: Iterable[str]) -> str:
    """Return a name that every model API accepts, and that no other argument has."""
    argument = _NOT_IN_NAMES.sub("_", name)[:60]
    while argument in taken:
        argument += "_"
    return argument


def _without_place(declared: Mapping[str, Any]) -> dict[str, Any]:
    """In Swagger 2, a parameter is a schema with more members."""
    return {
        name: value for name, value in declared.items() if name not in ("name", "in", "required", "allowEmptyValue")
    }


def _parameter_schema(declared: Mapping[str, Any], reader: SchemaReader) -> dict[str, Any]:
    content = declared.get("content")
    if isinstance(content, Mapping) and content:
        schema = reader.convert(next(iter(content.values())).get("schema", {}))
    else:
        schema = reader.convert(declared["schema"] if "schema" in declared else _without_place(declared))
    notes = {"description": declared["description"]} if declared.get("description") else {}
    if "example" in declared:
        notes["examples"] = [declared["example"]]
    return {**(schema if isinstance(schema, Mapping) else {}), **notes}


def _style_of(declared: Mapping[str, Any]) -> str:
    if "content" in declared:
        return "json"
    if "collectionFormat" in declared or ("schema" not in declared and declared.get("type") == "array"):
        named = declared.get("collectionFormat", "csv")
        return _SEPARATORS.get(named, "multi")
    style = declared.get("style", "form")
    if style == "deepObject":
        return str(style)
    if style in _SEPARATORS:
        return _SEPARATORS[style]
    return "," if declared.get("explode") is False or declared.get("in") == "path" else "multi"


def _read_body(
    body: Mapping[str, Any], reader: SchemaReader, properties: dict[str, Any], required: list[str]
) -> Body | None:
    """Add the arguments of the body.

    :raises ValueError: for media types that arguments cannot be converted to.
    """
    content = body.get("content") or {}
    media_type = next(filter(_JSON.match, content), None) or next(
        (each for each in (FORM, MULTIPART, "*/*", "application/octet-stream", "text/plain") if each in content), None
    )
    if media_type is None:
        raise ValueError(f"its body is {' or '.join(content) or 'not described'}, which has no JSON form")
    declared = content[media_type]
    schema = reader.resolve(declared.get("schema") or {})
    is_form = media_type in (FORM, MULTIPART)
    is_raw = media_type in ("application/octet-stream", "text/plain")
    if media_type == "*/*":
        media_type = "application/json"
    members = schema.get("properties")
    if is_form and not isinstance(members, Mapping):
        raise ValueError("its form has no fields in the document")
    if is_form or (not is_raw and _can_be_arguments(schema, properties)):
        files = {name: _file_schema(reader.resolve(rules)) for name, rules in members.items()} if is_form else {}
        kept = {name: rules for name, rules in members.items() if not _is_read_only(reader.resolve(rules))}
        names = {_argument_name(name, [*properties]): name for name in kept}
        properties.update(
            {argument: files.get(name) or reader.convert(members[name]) for argument, name in names.items()}
        )
        required += [argument for argument, name in names.items() if name in schema.get("required", ())]
        return Body(media_type, names)
    whole = {"type": "string", "contentEncoding": "base64"} if is_raw and media_type != "text/plain" else schema
    properties[BODY] = reader.convert(declared.get("schema") if whole is schema else whole) or {}
    if body.get("required"):
        required.append(BODY)
    return Body(media_type)


def _can_be_arguments(schema: Any, taken: Iterable[str]) -> bool:
    """Return whether the members of a body can stand beside the other arguments."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        return False
    if schema.get("nullable") or schema.get("additionalProperties") not in (None, False):
        return False
    names = set(map(str, schema["properties"]))
    return not any(keyword in schema for keyword in _NOT_PLAIN) and not names.intersection(taken)


def _is_read_only(rules: Any) -> bool:
    return isinstance(rules, Mapping) and bool(rules.get("readOnly"))


def _file_schema(rules: Any) -> dict[str, Any] | None:
    """Return the schema of an argument that is a file, or a list of files; ``None`` for any other field."""
    if not isinstance(rules, Mapping):
        return None
    if rules.get("type") == "array":
        item = _file_schema(rules.get("items"))
        return None if item is None else {"type": "array", "items": item}
    is_file = rules.get("type") == "file" or rules.get("format") == "binary" or "contentMediaType" in rules
    notes = {"description": rules["description"]} if rules.get("description") else {}
    return {**FILE, **notes} if is_file else None


def _body_of(body: Body, arguments: Mapping[str, Any]) -> dict[str, Any]:
    if body.members is None and BODY not in arguments:
        return {}
    if body.media_type in (FORM, MULTIPART):
        fields: MultiDict[str, Any] = MultiDict()
        for argument, name in (body.members or {}).items():
            value = arguments.get(argument)
            for item in value if isinstance(value, list) else [] if value is None else [value]:
                fields.add(name, _field(argument, item))
        return {"data": fields, "content_type": body.media_type}
    if body.members is not None:
        value = {name: arguments[argument] for argument, name in body.members.items() if argument in arguments}
        return {"data": write(value), "content_type": body.media_type}
    whole = arguments[BODY]
    if _JSON.match(body.media_type):
        return {"data": write(whole), "content_type": body.media_type}
    data = str(whole).encode() if body.media_type == "text/plain" else _decode(BODY, whole)
    return {"data": data, "content_type": body.media_type}


def _header(parameter: Parameter, value: Any) -> str:
    text = parameter.text(value)
    if not text.isascii() or not text.isprintable():
        raise InvalidParams([Problem(pointer("", parameter.name), "must be printable ASCII")])
    return text


def _field(argument: str, value: Any) -> Any:
    if isinstance(value, Mapping) and "content" in value and value.keys() <= FILE["properties"].keys():
        name = value.get("filename") or "file"
        if not name.isprintable() or '"' in name or "\\" in name:  # werkzeug writes it into a header as it is
            raise InvalidParams([Problem(pointer("", argument, "filename"), "must be a plain file name")])
        return FileStorage(BytesIO(_decode(argument, value["content"], "content")), filename=name)
    return as_text(value)


def _decode(argument: str, text: Any, *steps: str) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidParams([Problem(pointer("", argument, *steps), "must be base64")]) from error


def as_text(value: Any) -> str:
    """Write a value in a path, a query string, a form or a header: strings as they are, others as JSON."""
    return value if isinstance(value, str) else write(value).decode()
