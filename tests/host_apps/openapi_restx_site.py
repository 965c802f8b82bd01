"""A flask-restx API, which has a Swagger 2 document, whose operations are tools."""

from flask import Flask, Response, request
from flask_restx import Api, Resource, fields
from werkzeug.datastructures import FileStorage

from flask_jsonrpc_mcp import McpBlueprint
from tests.host_apps.shared_library import add_reset, auth, etag_of, library, problems_of

app = Flask(__name__)
app.config.update(SECRET_KEY="key", RESTX_MASK_SWAGGER=False, ERROR_INCLUDE_MESSAGE=False)
api = Api(app, title="Books", validate=True, prefix="/api")
books = api.namespace("books")

new_book = api.model(
    "NewBook",
    {"title": fields.String(required=True, min_length=1), "pages": fields.Integer(required=True, min=1)},
)
book = api.inherit("Book", new_book, {"id": fields.Integer})
page = api.parser()
page.add_argument("page", type=int, default=1, location="args")
page.add_argument("page_size", type=int, default=10, location="args")
cover = api.parser()
cover.add_argument("file", type=FileStorage, location="files", required=True)


def checked(new):
    problems = problems_of(**new)
    return books.abort(400, "Input payload validation failed", errors=problems) if problems else new


def find(id):
    return library.books[id] if id in library.books else books.abort(404, f"There is no book {id}")


@books.route("")
class Books(Resource):
    @books.doc("list_books")
    @books.expect(page)
    @books.marshal_list_with(book)
    def get(self):
        """List books."""
        return library.page(**page.parse_args())

    @books.doc("add_book")
    @auth.login_required
    @books.expect(new_book)
    @books.marshal_with(book, code=201)
    def post(self):
        """Add a book."""
        return library.add(**checked(api.payload)), 201


@books.route("/<int:id>")
class Book(Resource):
    @books.doc("get_book")
    @books.marshal_with(book)
    def get(self, id):
        """Read a book."""
        return find(id), 200, {"ETag": f'"{etag_of(find(id))}"'}

    @books.doc("change_book", params={"If-Match": {"in": "header", "type": "string"}})
    @auth.login_required
    @books.expect(new_book)
    @books.marshal_with(book)
    def put(self, id):
        """Change a book."""
        if not request.if_match.contains(etag_of(find(id))):
            books.abort(412, "The book has changed")
        return library.change(id, **api.payload)

    @books.doc("delete_book")
    @books.response(204, "Deleted")
    @auth.login_required(role="Admin")
    def delete(self, id):
        """Delete a book."""
        del library.books[find(id)["id"]]
        return "", 204


@books.route("/<int:id>/cover")
class Cover(Resource):
    @books.doc("set_cover")
    @auth.login_required
    @books.expect(cover)
    def post(self, id):
        """Upload the cover of a book."""
        file = cover.parse_args()["file"]
        library.covers[find(id)["id"]] = file.read()
        return {"filename": file.filename, "bytes": len(library.covers[id])}

    @books.doc("get_cover")
    @books.produces(["image/png"])
    def get(self, id):
        """Download the cover of a book."""
        return Response(library.covers[find(id)["id"]], mimetype="image/png")


add_reset(app)

# The glue.
rpc = McpBlueprint(auth=auth)
rpc.add_openapi(lambda: api.__schema__, include=["tag:books"])
app.register_blueprint(rpc)
