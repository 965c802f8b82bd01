"""An APIFlask API whose operations are tools."""

from apiflask import APIFlask, Schema, abort
from apiflask.fields import File, Integer, String
from apiflask.validators import Length, Range
from flask import Response, request
from marshmallow import ValidationError, validates_schema

from flask_jsonrpc_mcp import McpBlueprint
from tests.host_apps.shared_library import add_reset, auth, etag_of, library, problems_of

app = APIFlask(__name__, title="Books")
app.config["SECRET_KEY"] = "key"


class NewBook(Schema):
    title = String(required=True, validate=Length(min=1))
    pages = Integer(required=True, validate=Range(min=1))

    @validates_schema
    def check(self, data, **options):
        if problems_of(**data):
            raise ValidationError(problems_of(**data))


class Book(NewBook):
    id = Integer()


class Page(Schema):
    page = Integer(load_default=1, validate=Range(min=1))
    page_size = Integer(load_default=10, validate=Range(min=1))


class Cover(Schema):
    file = File(required=True)


class IfMatch(Schema):
    if_match = String(required=True, data_key="If-Match")


def find(id):
    return library.books[id] if id in library.books else abort(404, f"There is no book {id}")


@app.get("/books")
@app.doc(operation_id="list_books", tags=["books"])
@app.input(Page, location="query")
@app.output(Book(many=True))
def list_books(query_data):
    """List books."""
    return library.page(**query_data)


@app.post("/books")
@app.doc(operation_id="add_book", tags=["books"])
@auth.login_required
@app.input(NewBook)
@app.output(Book, status_code=201)
def add_book(json_data):
    """Add a book."""
    return library.add(**json_data)


@app.get("/books/<int:id>")
@app.doc(operation_id="get_book", tags=["books"])
@app.output(Book)
def get_book(id):
    """Read a book."""
    book = find(id)
    return book, 200, {"ETag": f'"{etag_of(book)}"'}


@app.put("/books/<int:id>")
@app.doc(operation_id="change_book", tags=["books"])
@auth.login_required
@app.input(IfMatch, location="headers")
@app.input(NewBook)
@app.output(Book)
def change_book(id, headers_data, json_data):
    """Change a book."""
    if not request.if_match.contains(etag_of(find(id))):
        abort(412, "The book has changed")
    return library.change(id, **json_data)


@app.delete("/books/<int:id>")
@app.doc(operation_id="delete_book", tags=["books"])
@auth.login_required(role="Admin")
@app.output({}, status_code=204)
def delete_book(id):
    """Delete a book."""
    del library.books[find(id)["id"]]
    return ""


@app.post("/books/<int:id>/cover")
@app.doc(operation_id="set_cover", tags=["books"])
@auth.login_required
@app.input(Cover, location="files")
def set_cover(id, files_data):
    """Upload the cover of a book."""
    library.covers[find(id)["id"]] = files_data["file"].read()
    return {"filename": files_data["file"].filename, "bytes": len(library.covers[id])}


@app.get("/books/<int:id>/cover")
@app.doc(operation_id="get_cover", tags=["books"])
def get_cover(id):
    """Download the cover of a book."""
    return Response(library.covers[find(id)["id"]], mimetype="image/png")


add_reset(app)

# The glue.
rpc = McpBlueprint(auth=auth)
rpc.add_openapi(lambda: app.spec, include=["tag:books"])
app.register_blueprint(rpc)
