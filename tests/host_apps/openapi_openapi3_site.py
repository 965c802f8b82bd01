"""A flask-openapi3 API, described by pydantic models, whose operations are tools."""

from flask import Response, abort, request
from flask_openapi3 import FileStorage, Info, OpenAPI, Tag
from pydantic import BaseModel, Field, field_validator

from flask_jsonrpc_mcp import McpBlueprint
from tests.host_apps.shared_library import add_reset, auth, etag_of, library, problems_of

app = OpenAPI(__name__, info=Info(title="Books", version="1"))
app.config["SECRET_KEY"] = "key"
books = [Tag(name="books")]


class Page(BaseModel):
    page: int = Field(1, ge=1)
    page_size: int = Field(10, ge=1)


class OneBook(BaseModel):
    id: int


class NewBook(BaseModel):
    title: str = Field(min_length=1)
    pages: int = Field(ge=1)

    @field_validator("title", "pages")
    @classmethod
    def check(cls, value, info):
        new = {"title": "", "pages": 1, info.field_name: value}
        for problem in problems_of(**new).values():
            raise ValueError(*problem)
        return value


class Unchanged(BaseModel):
    if_match: str = Field(alias="If-Match")


class Cover(BaseModel):
    file: FileStorage


def find(id):
    return library.books[id] if id in library.books else abort(404, f"There is no book {id}")


@app.get("/books", tags=books, operation_id="list_books")
def list_books(query: Page):
    """List books."""
    return library.page(query.page, query.page_size)


@app.post("/books", tags=books, operation_id="add_book")
@auth.login_required
def add_book(body: NewBook):
    """Add a book."""
    return library.add(body.title, body.pages), 201


@app.get("/books/<int:id>", tags=books, operation_id="get_book")
def get_book(path: OneBook):
    """Read a book."""
    book = find(path.id)
    return book, 200, {"ETag": f'"{etag_of(book)}"'}


@app.put("/books/<int:id>", tags=books, operation_id="change_book")
@auth.login_required
def change_book(path: OneBook, header: Unchanged, body: NewBook):
    """Change a book."""
    if not request.if_match.contains(etag_of(find(path.id))):
        abort(412, "The book has changed")
    return library.change(path.id, body.title, body.pages)


@app.delete("/books/<int:id>", tags=books, operation_id="delete_book")
@auth.login_required(role="Admin")
def delete_book(path: OneBook):
    """Delete a book."""
    del library.books[find(path.id)["id"]]
    return "", 204


@app.post("/books/<int:id>/cover", tags=books, operation_id="set_cover")
@auth.login_required
def set_cover(path: OneBook, form: Cover):
    """Upload the cover of a book."""
    library.covers[find(path.id)["id"]] = form.file.read()
    return {"filename": form.file.filename, "bytes": len(library.covers[path.id])}


@app.get("/books/<int:id>/cover", tags=books, operation_id="get_cover")
def get_cover(path: OneBook):
    """Download the cover of a book."""
    return Response(library.covers[find(path.id)["id"]], mimetype="image/png")


add_reset(app)

# The glue.
rpc = McpBlueprint(auth=auth)
rpc.add_openapi(lambda: app.api_doc, include=["tag:books"])
app.register_blueprint(rpc)
