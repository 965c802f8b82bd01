"""The sample site in a conversation: what there is to read, to start from, to wait for and to be asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.conftest import basic
from tests.deploy.test_sample_app import new_site
from tests.support.answering import DECLINE, Respondent, accept
from tests.support.mcp_messages import LegacyClient, ModernClient, error, events, result

ASKABLE: dict[str, Any] = {"elicitation": {}}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    with new_site(tmp_path, TESTING=True) as app:
        yield app


@pytest.fixture
def reader(app: Flask) -> ModernClient:
    return ModernClient(app.test_client())


@pytest.fixture
def admin(app: Flask) -> ModernClient:
    return ModernClient(app.test_client(), basic("admin"), ASKABLE)


def test_an_article_is_a_resource(reader: ModernClient) -> None:
    [template] = result(reader.post("resources/templates/list"))["resourceTemplates"]
    assert template["uriTemplate"] == "articles://{id}"
    [contents] = result(reader.post("resources/read", {"uri": "articles://1"}))["contents"]
    markdown = result(reader.call("articles.to_markdown", {"id": 1}))["structuredContent"]
    assert contents == {"uri": "articles://1", "mimeType": "text/markdown", "text": markdown}


def test_the_newest_article_has_a_uri_of_its_own(reader: ModernClient, admin: ModernClient) -> None:
    result(admin.call("articles.create", {"title": "Frost", "body": "Cover the beans."}))
    [contents] = result(reader.post("resources/read", {"uri": "articles://latest"}))["contents"]
    assert contents["text"].startswith("# Frost\n")


def test_an_article_that_is_not_there_is_no_resource(reader: ModernClient) -> None:
    assert error(reader.post("resources/read", {"uri": "articles://999"}))[1] == -32602


def test_a_prompt_brings_the_article_along(reader: ModernClient) -> None:
    arguments = {"id": "1", "length": "one sentence"}
    prompt = result(reader.post("prompts/get", {"name": "articles.summarise", "arguments": arguments}))
    article, request = prompt["messages"]
    assert article["content"]["resource"]["uri"] == "articles://1"
    assert request["content"]["text"].startswith("Summarise the article above in one sentence")


def test_a_person_is_helped_with_the_arguments(reader: ModernClient) -> None:
    def completed(argument: str, typed: str) -> Any:
        ref = {"type": "ref/prompt", "name": "articles.summarise"}
        params = {"ref": ref, "argument": {"name": argument, "value": typed}}
        return result(reader.post("completion/complete", params))["completion"]["values"]

    assert completed("length", "one") == ["one sentence", "one paragraph"]
    ids = completed("id", "1")
    assert "1" in ids
    assert all(found.startswith("1") for found in ids)


def test_an_import_tells_how_far_it_is(admin: ModernClient) -> None:
    drafts = [{"title": f"Draft {number}"} for number in range(1, 4)]
    params = {"name": "articles.import", "arguments": {"articles": drafts}, "_meta": {"progressToken": "t"}}
    *reports, reply = events(admin.post("tools/call", params))
    assert [report["params"] for report in reports] == [
        {"progressToken": "t", "progress": number, "total": 3, "message": f"Draft {number}"} for number in (1, 2, 3)
    ]
    assert len(reply["result"]["structuredContent"]) == 3


def test_an_import_is_all_or_nothing(admin: ModernClient) -> None:
    before = result(admin.call("articles.list"))["structuredContent"]["total"]
    drafts = [{"title": "Fine"}, {"title": "Not so", "type": "no-such-type"}]
    assert result(admin.call("articles.import", {"articles": drafts}))["isError"]
    assert result(admin.call("articles.list"))["structuredContent"]["total"] == before


def test_a_delete_asks_first(admin: ModernClient) -> None:
    declining = Respondent(admin, [DECLINE])
    assert declining.call("articles.delete", {"id": 1}).startswith("Not done")
    assert [question["params"]["message"] for question in declining.asked] == ["Delete article 1 for good?"]
    assert not result(admin.call("articles.get", {"id": 1}))["isError"]
    assert Respondent(admin, [accept()]).call("articles.delete", {"id": 1}) is True
    assert result(admin.call("articles.get", {"id": 1}))["isError"]


def test_an_older_client_that_cannot_be_asked_deletes_nothing(app: Flask) -> None:
    client = LegacyClient(app.test_client(), headers=basic("admin"))
    assert result(client.call("articles.delete", {"id": 2}))["isError"]
    assert not result(client.call("articles.get", {"id": 2}))["isError"]
