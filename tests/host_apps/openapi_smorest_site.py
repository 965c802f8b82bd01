"""A flask-smorest API whose operations are tools."""

from flask import Flask, Response
from flask_smorest import Api, Blueprint, abort
from flask_smorest.fields import Upload
from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from flask_jsonrpc_mcp import McpBlueprint
from tests.host_apps.shared_library import add_reset, auth, etag_of, library, problems_of

app = Flask(__name__)
app.config.update(API_TITLE="Books", API_VERSION="v1", OPENAPI_VERSION="3.0.3", SECRET_KEY="key")
api = Api(app)
books = Blueprint("books", "books", url_prefix="/books")


class NewBook(Schema):
    title = fields.String(required=True, validate=validate.Length(min=1))
    pages = fields.Integer(required=True, validate=validate.Range(min=1))

    @validates_schema
    def check(self, data, **options):
        if problems_of(**data):
            raise ValidationError(problems_of(**data))


class Book(NewBook):
    id = fields.Integer(dump_only=True)


class Cover(Schema):
    file = Upload(required=True)


def find(id):
    return library.books[id] if id in library.books else abort(404, message=f"There is no book {id}")


@books.route("/")
@books.doc(operationId="list_books")
@books.response(200, Book(many=True))
@books.paginate(page_size=10)
def list_books(pagination_parameters):
    """List books."""
    pagination_parameters.item_count = len(library.books)
    return library.page(pagination_parameters.page, pagination_parameters.page_size)


@books.route("/", methods=["POST"])
@books.doc(operationId="add_book")
@auth.login_required
@books.arguments(NewBook)
@books.response(201, Book)
def add_book(new):
    """Add a book."""
    return library.add(**new)


@books.route("/<int:id>")
@books.doc(operationId="get_book")
@books.etag
@books.response(200, Book)
def get_book(id):
    """Read a book."""
    book = find(id)
    books.set_etag(etag_of(book))
    return book


@books.route("/<int:id>", methods=["PUT"])
@books.doc(operationId="change_book")
@auth.login_required
@books.etag
@books.arguments(NewBook)
@books.response(200, Book)
def change_book(new, id):
    """Change a book."""
    books.check_etag(etag_of(find(id)))
    book = library.change(id, **new)
    books.set_etag(etag_of(book))
    return book


@books.route("/<int:id>", methods=["DELETE"])
@books.doc(operationId="delete_book")
@auth.login_required(role="Admin")
@books.response(204)
def delete_book(id):
    """Delete a book."""
    del library.books[find(id)["id"]]


@books.route("/<int:id>/cover", methods=["POST"])
@books.doc(operationId="set_cover")
@auth.login_required
@books.arguments(Cover, location="files")
@books.response(200)
def set_cover(files, id):
    """Upload the cover of a book."""
    library.covers[find(id)["id"]] = files["file"].read()
    return {"filename": files["file"].filename, "bytes": len(library.covers[id])}


@books.route("/<int:id>/cover")
@books.doc(operationId="get_cover")
@books.response(200, {"format": "binary", "type": "string"}, content_type="image/png")
def get_cover(id):
    """Download the cover of a book."""
    return Response(library.covers[find(id)["id"]], mimetype="image/png")


api.register_blueprint(books)
add_reset(app)

# The glue.
rpc = McpBlueprint(auth=auth)
rpc.add_openapi(lambda: api.spec.to_dict(), include=["tag:books"])
app.register_blueprint(rpc)
