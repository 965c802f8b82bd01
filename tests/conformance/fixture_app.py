"""The app that the official conformance suite tests: what the suite asks for, written as any user would."""

from __future__ import annotations

import struct
import zlib
from typing import Annotated, Any

from flask import Flask

from flask_jsonrpc_mcp import AudioContent, EmbeddedResource, ImageContent, McpBlueprint, TextContent, mcp_tool

rpc = McpBlueprint()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# A red pixel, and a moment of silence.
PNG = b"".join(
    [
        b"\x89PNG\r\n\x1a\n",
        _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        _chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00")),
        _chunk(b"IEND", b""),
    ]
)
WAV = (
    b"RIFF"
    + struct.pack("<I", 36)
    + b"WAVEfmt "
    + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    + b"data\0\0\0\0"
)


# First, because the suite calls the first tool of the list with no arguments.
@rpc.method
@mcp_tool
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@rpc.method
@mcp_tool
def test_image_content() -> ImageContent:
    """Return a picture."""
    return ImageContent(PNG, "image/png")


@rpc.method
@mcp_tool
def test_audio_content() -> AudioContent:
    """Return a sound."""
    return AudioContent(WAV, "audio/wav")


@rpc.method
@mcp_tool
def test_embedded_resource() -> EmbeddedResource:
    """Return something to read."""
    return EmbeddedResource("test://embedded-resource", "This is an embedded resource content.", "text/plain")


@rpc.method
@mcp_tool
def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Return content of several kinds."""
    return [
        TextContent("Multiple content types test:"),
        ImageContent(PNG, "image/png"),
        EmbeddedResource("test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json"),
    ]


@rpc.method
@mcp_tool
def test_error_handling() -> None:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@rpc.method(
    params={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
@mcp_tool
def json_schema_2020_12_tool(**kwargs: Any) -> str:
    """Take arguments that only a full JSON Schema can describe."""
    return f"JSON Schema 2020-12 tool called with: {kwargs}"


@rpc.method
@mcp_tool
def test_mirrored_header(region: Annotated[str, "Where to run", {"x-mcp-header": "Region"}] = "") -> str:
    """Take an argument that HTTP clients repeat in a header."""
    return region


@rpc.method
@mcp_tool(requires=["sampling"])
def test_missing_capability() -> str:
    """Need a client that can sample."""
    return "sampled"


@rpc.method
@mcp_tool
def test_streaming_elicitation() -> str:
    """Answer without asking anything."""
    return "nothing to ask"


@rpc.method
@mcp_tool
def test_logging_tool() -> str:
    """Answer without logging anything to the client."""
    return "nothing to log"


@rpc.method
@mcp_tool
def test_reconnection() -> str:
    """Answer in one piece."""
    return "Reconnection test completed"


app = Flask(__name__)
app.secret_key = "conformance"
app.config["JSONRPC_MCP_SERVER_NAME"] = "conformance-fixture"
app.register_blueprint(rpc)
