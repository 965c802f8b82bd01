"""Flask views with an OpenAPI document that apispec collects from their docstrings, whose operations are tools."""

from apispec import APISpec
from apispec.yaml_utils import load_operations_from_docstring
from flask import Flask, Response, abort, jsonify, request
from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from flask_jsonrpc_mcp import McpBlueprint
from tests.host_apps.shared_library import add_reset, auth, etag_of, library, problems_of

app = Flask(__name__)
app.config["SECRET_KEY"] = "key"
spec = APISpec(title="Books", version="1", openapi_version="3.1.0")
spec.components.schema(
    "NewBook",
    {
        "type": "object",
        "properties": {"title": {"type": "string", "minLength": 1}, "pages": {"type": "integer", "minimum": 1}},
        "required": ["title", "pages"],
    },
)
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}


class NewBook(Schema):
    title = fields.String(required=True, validate=validate.Length(min=1))
    pages = fields.Integer(required=True, validate=validate.Range(min=1))

    @validates_schema
    def check(self, data, **options):
        if problems_of(**data):
            raise ValidationError(problems_of(**data))


def find(id):
    return library.books[id] if id in library.books else abort(404, f"There is no book {id}")


@app.errorhandler(ValidationError)
def invalid(error):
    return {"errors": error.messages}, 422


def documented(path):
    """Add a view to the document, and return it unchanged."""

    def add(view):
        parameters = [ID] if "{id}" in path else []
        spec.path(path, operations=load_operations_from_docstring(view.__doc__), parameters=parameters)
        return view

    return add


@app.get("/books")
@documented("/books")
def list_books():
    """List books.
    ---
    get:
      operationId: list_books
      tags: [books]
      summary: List books.
      parameters:
        - {name: page, in: query, schema: {type: integer, minimum: 1, default: 1}}
        - {name: page_size, in: query, schema: {type: integer, minimum: 1, default: 10}}
    """
    return library.page(request.args.get("page", 1, int), request.args.get("page_size", 10, int))


@app.post("/books")
@auth.login_required
@documented("/books")
def add_book():
    """Add a book.
    ---
    post:
      operationId: add_book
      tags: [books]
      summary: Add a book.
      requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/NewBook"}}}}
    """
    return library.add(**NewBook().load(request.json)), 201


@app.get("/books/<int:id>")
@documented("/books/{id}")
def get_book(id):
    """Read a book.
    ---
    get: {operationId: get_book, tags: [books], summary: Read a book.}
    """
    response = jsonify(find(id))
    response.set_etag(etag_of(find(id)))
    return response


@app.put("/books/<int:id>")
@auth.login_required
@documented("/books/{id}")
def change_book(id):
    """Change a book.
    ---
    put:
      operationId: change_book
      tags: [books]
      summary: Change a book.
      parameters:
        - {name: If-Match, in: header, required: true, schema: {type: string}}
      requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/NewBook"}}}}
    """
    if not request.if_match.contains(etag_of(find(id))):
        abort(412, "The book has changed")
    return library.change(id, **NewBook().load(request.json))


@app.delete("/books/<int:id>")
@auth.login_required(role="Admin")
@documented("/books/{id}")
def delete_book(id):
    """Delete a book.
    ---
    delete: {operationId: delete_book, tags: [books], summary: Delete a book.}
    """
    del library.books[find(id)["id"]]
    return "", 204


@app.post("/books/<int:id>/cover")
@auth.login_required
@documented("/books/{id}/cover")
def set_cover(id):
    """Upload the cover of a book.
    ---
    post:
      operationId: set_cover
      tags: [books]
      summary: Upload the cover of a book.
      requestBody:
        content:
          multipart/form-data:
            schema:
              type: object
              properties: {file: {type: string, contentMediaType: application/octet-stream}}
              required: [file]
    """
    library.covers[find(id)["id"]] = request.files["file"].read()
    return {"filename": request.files["file"].filename, "bytes": len(library.covers[id])}


@app.get("/books/<int:id>/cover")
@documented("/books/{id}/cover")
def get_cover(id):
    """Download the cover of a book.
    ---
    get: {operationId: get_cover, tags: [books], summary: Download the cover of a book.}
    """
    return Response(library.covers[find(id)["id"]], mimetype="image/png")


add_reset(app)

# The glue.
rpc = McpBlueprint(auth=auth)
rpc.add_openapi(spec.to_dict, include=["tag:books"])
app.register_blueprint(rpc)
