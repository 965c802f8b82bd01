"""A connexion 2 API, which begins with its document, whose operations are tools."""

import connexion
from flask import Response, abort, jsonify, request

from flask_jsonrpc_mcp import McpBlueprint
from tests.host_apps.shared_library import ROLES, add_reset, auth, etag_of, library, problems_of


def find(id):
    return library.books[id] if id in library.books else abort(404, f"There is no book {id}")


def check_password(username, password):
    return {"sub": username} if username in ROLES and password == "a long secret" else None


def list_books(page=1, page_size=10):
    return library.page(page, page_size)


def add_book(body):
    if problems_of(**body):
        return connexion.problem(400, "Bad Request", "The book is not right", ext={"errors": problems_of(**body)})
    return library.add(**body), 201


def get_book(id):
    response = jsonify(find(id))
    response.set_etag(etag_of(find(id)))
    return response


def change_book(id, body):
    if not request.if_match.contains(etag_of(find(id))):
        abort(412, "The book has changed")
    return library.change(id, **body)


def delete_book(id, user):
    if "Admin" not in ROLES[user]:
        abort(403, "Only administrators may delete")
    del library.books[find(id)["id"]]
    return connexion.NoContent, 204


def set_cover(id, file):
    library.covers[find(id)["id"]] = file.read()
    return {"filename": file.filename, "bytes": len(library.covers[id])}


def get_cover(id):
    return Response(library.covers[find(id)["id"]], mimetype="image/png")


site = connexion.FlaskApp(__name__, specification_dir=".")
api = site.add_api("openapi_connexion.yaml", options={"swagger_ui": False}, arguments={"module": __name__})
app = site.app
app.config["SECRET_KEY"] = "key"
add_reset(app)

# The glue.
rpc = McpBlueprint(auth=auth)
rpc.add_openapi(api.specification.raw, include=["tag:books"], name=lambda operation: operation.id.rpartition(".")[2])
app.register_blueprint(rpc)
