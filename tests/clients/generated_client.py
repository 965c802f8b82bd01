"""A client that openapi-python-client has generated from the document of the sample site, in the package ``garden``."""

import json
import sys

from garden import AuthenticatedClient, Client
from garden.api.articles import articles_create, articles_delete, articles_get, get_articles_list
from garden.models import ArticlesCreateBody, ArticlesDeleteBody, ArticlesGetBody, Error

url = sys.argv[1]
with AuthenticatedClient(url, "demo-admin-token") as admin, Client(url) as anyone:
    created = articles_create.sync(client=admin, body=ArticlesCreateBody(title="Frost", body="Cover the dahlias."))
    listed = get_articles_list.sync(client=anyone, limit=1, type_="news")
    read = articles_get.sync(client=anyone, body=ArticlesGetBody(id=created.result.id))
    deleted = articles_delete.sync(client=admin, body=ArticlesDeleteBody(id=created.result.id))
    missing = articles_get.sync(client=anyone, body=ArticlesGetBody(id=created.result.id))
    refused = articles_create.sync(client=anyone, body=ArticlesCreateBody(title="Frost"))
    assert isinstance(missing, Error)
    print(
        json.dumps(
            {
                "created": [created.result.title, created.result.created.year > 2000],
                "listed": [listed.result.items[0].title, len(listed.result.items), listed.result.total > 1],
                "read": read.result.body,
                "deleted": deleted.result,
                "missing": [missing.error.code, missing.error.message],
                "refused": refused.error.code,
            }
        )
    )
