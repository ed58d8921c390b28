"""The page refuses actions without the token, from another site, and twice at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stream_app.app.cli.main import main
from stream_app.app.config.secrets import HIDDEN
from stream_app.app.inspect.table_status import JobTableState
from stream_app.app.web.actions import (
    TOKEN_VARIABLE,
    Actions,
    is_same_origin,
    offered_actions,
    token_of,
)
from stream_app.app.web.site import WarehouseSite
from stream_app.clock import SystemClock
from stream_app.errors import OPERATOR_NEEDED, UsageError
from stream_app.fileio.store_registry import file_io_of
from tests.support.pages.web_server import Warehouse, rows, served_warehouse

TOKEN = "0123456789abcdef<&>"
PAGE = "/tables/shop.orders"
ACT = f"{PAGE}/actions"


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    (tmp_path / "shop.db").mkdir()
    with served_warehouse(tmp_path, TOKEN) as site:
        site.table("shop.orders").commit(*rows(1))
        yield site


def tags(warehouse: Warehouse) -> list[str]:
    folder = warehouse.path / "shop.db" / "orders" / "tag"
    return sorted(file.name for file in folder.glob("tag-*"))


def form(tag: str = "mine", **others: str) -> dict[str, str]:
    return {"action": "tag", "tag": tag, "token": TOKEN, **others}


def test_a_tag_is_created_and_confirmed(warehouse: Warehouse) -> None:
    status, _ = warehouse.post(ACT, form())
    assert status == 303
    assert tags(warehouse) == ["tag-mine"]
    words = warehouse.words(PAGE)
    assert "tag done created tag 'mine'" in words
    assert "snapshot 1: tag mine" in words


def test_errors_of_an_action_stand_on_the_page(warehouse: Warehouse) -> None:
    warehouse.post(ACT, form())
    assert warehouse.post(ACT, form())[0] == 303
    assert "tag failed tag 'mine' exists already" in warehouse.words(PAGE)
    warehouse.post(ACT, form("a/b"))
    assert tags(warehouse) == ["tag-mine"]
    warehouse.post(ACT, form(action="replay"))
    shown = warehouse.get(PAGE)
    assert '">a replay needs the configuration of a job\nwhere: shop.orders\nto fix:' in shown


def test_a_token_may_come_in_a_header(warehouse: Warehouse) -> None:
    sent = {"action": "tag", "tag": "by-script"}
    status, _ = warehouse.post(ACT, sent, Authorization=f"Bearer {TOKEN}")
    assert (status, tags(warehouse)) == (303, ["tag-by-script"])
    status, text = warehouse.post(ACT, form("other"), Authorization="Bearer wrong")
    assert (status, tags(warehouse)) == (403, ["tag-by-script"])
    assert "the token is wrong" in text


@pytest.mark.parametrize(
    ("sent_form", "headers", "status", "why"),
    [
        (form(token=""), {}, 403, "the token is wrong"),
        (form(token=TOKEN[:-1]), {}, 403, "the token is wrong"),
        ({"action": "tag", "tag": "mine"}, {}, 403, "the token is wrong"),
        (form(), {"Origin": "https://evil.example"}, 403, "a page of another server"),
        (form(), {"Origin": "null"}, 403, "a page of another server"),
        (form(), {"Sec-Fetch-Site": "cross-site"}, 403, "a page of another server"),
        (form(), {"Sec-Fetch-Site": "same-site"}, 403, "a page of another server"),
        (form(action="drop"), {}, 409, "there is no action 'drop'"),
        (form(tag="x" * 20_000), {}, 413, "not a form of the page"),
    ],
)
def test_a_request_that_may_not_act_changes_nothing(
    warehouse: Warehouse,
    sent_form: Mapping[str, str],
    headers: Mapping[str, str],
    status: int,
    why: str,
) -> None:
    answer_status, text = warehouse.post(ACT, sent_form, **headers)
    assert (answer_status, tags(warehouse)) == (status, [])
    assert why in text
    assert TOKEN not in text


def test_the_page_itself_may_act(warehouse: Warehouse) -> None:
    host = urlsplit(warehouse.server).netloc
    assert warehouse.post(ACT, form("a"), Origin=f"http://{host}")[0] == 303
    assert warehouse.post(ACT, form("b"), Sec_Fetch_Site="same-origin")[0] == 303
    assert tags(warehouse) == ["tag-a", "tag-b"]
    assert is_same_origin({"sec-fetch-site": "same-origin", "origin": "https://proxy.example"})


def test_a_link_cannot_act(warehouse: Warehouse) -> None:
    warehouse.get(f"{ACT}?action=tag&tag=mine&token=0123456789abcdef", status=405)
    assert tags(warehouse) == []


def test_an_action_says_what_it_does_before_it_asks_for_the_token(warehouse: Warehouse) -> None:
    for action, title in (("tag", "Tag the latest snapshot"), ("compact", "Compact what is due")):
        assert f"{title}…" in warehouse.words(PAGE)
        shown = warehouse.get(f"{ACT}/{action}")
        assert f'action="{ACT}"' in shown
        assert f'name="action" value="{action}"' in shown
    assert tags(warehouse) == []
    assert "no such action" in warehouse.words(f"{ACT}/drop", status=404)


def test_without_a_token_no_action_is_offered(tmp_path: Path) -> None:
    (tmp_path / "shop.db").mkdir()
    with served_warehouse(tmp_path) as site:
        site.table("shop.orders").commit(*rows(1))
        assert "Compact" not in site.words(PAGE).replace("Compactions", "")
        assert "no such action" in site.words(f"{ACT}/tag", status=404)


@pytest.mark.parametrize(
    ("state", "can_open", "can_replay", "names"),
    [
        (JobTableState.READY, True, False, ["tag", "compact", "compact-full"]),
        (JobTableState.HELD, True, True, ["resume", "tag", "compact", "compact-full", "replay"]),
        (JobTableState.HELD, False, True, ["resume"]),
        (JobTableState.MISSING, False, True, []),
        (None, True, True, ["tag", "compact", "compact-full", "replay"]),
    ],
)
def test_actions_that_fit_a_table(
    state: JobTableState | None, *, can_open: bool, can_replay: bool, names: list[str]
) -> None:
    actions = offered_actions(state, can_open=can_open, can_replay=can_replay)
    assert [action.name for action in actions] == names


def test_a_table_that_is_not_there_is_reported(warehouse: Warehouse) -> None:
    assert warehouse.post("/tables/shop.nosuch/actions", form())[0] == 404


def test_the_token_is_on_no_page(warehouse: Warehouse) -> None:
    warehouse.post(ACT, form(TOKEN))
    text = warehouse.get(PAGE)
    assert HIDDEN in text
    assert "0123456789abcdef" not in text


def test_without_a_token_there_are_no_actions(tmp_path: Path) -> None:
    (tmp_path / "shop.db").mkdir()
    with served_warehouse(tmp_path) as warehouse:
        warehouse.table("shop.orders").commit(*rows(1))
        assert "<form" not in warehouse.get(PAGE)
        assert "reads only" in warehouse.words(PAGE)
        status, text = warehouse.post(ACT, form(token=""))
        assert (status, tags(warehouse)) == (403, [])
        assert "actions are off" in text


def test_a_short_token_is_refused_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "guess")
    assert main(["web", "--warehouse", str(tmp_path), "--port", "0"]) == OPERATOR_NEEDED
    assert "5 characters, and needs 16" in capsys.readouterr().err
    assert token_of({}) is None
    assert token_of({TOKEN_VARIABLE: ""}) is None
    assert token_of({TOKEN_VARIABLE: TOKEN}) == TOKEN


_SLOW = """
import pathlib, sys, time
print("begun", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
"""


def test_one_action_at_a_time_and_its_lines_as_they_come(warehouse: Warehouse) -> None:
    """Another process stands for the compaction, which `test_compaction_from_the_page` begins."""
    site = WarehouseSite(*file_io_of(str(warehouse.path)), {}, SystemClock())
    go_on = warehouse.path / "go on"
    slow = (sys.executable, "-c", _SLOW, str(go_on))
    actions = Actions(site, TOKEN, command=slow, patience_s=0.0)
    run = actions.begin("shop.orders", {"action": "compact"})
    with pytest.raises(UsageError, match="compact runs already"):
        actions.begin("shop.orders", {"action": "tag", "tag": "mine"})
    go_on.touch()
    assert run.end_event.wait(120)
    assert ([*run.lines], run.state) == (["begun"], "done")
    failing = Actions(site, TOKEN, command=(sys.executable, "-c", "raise SystemExit('no Java')"))
    run = failing.begin("shop.orders", {"action": "compact"})
    assert run.end_event.wait(120)
    assert run.state == "failed"
    assert run.lines[0] == "no Java"
    assert "stream-app compact ended with 1" in run.lines[1]
    assert actions.pulse("shop.orders") == (("done", 1),)


_DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{_SLOW}"


@pytest.mark.parametrize(("script", "patience_s"), [(_SLOW, 120.0), (_DEAF, 0.1)])
def test_the_end_of_the_server_ends_its_compactions(
    warehouse: Warehouse, script: str, patience_s: float
) -> None:
    site = WarehouseSite(*file_io_of(str(warehouse.path)), {}, SystemClock())
    slow = (sys.executable, "-c", script, str(warehouse.path / "never"))
    actions = Actions(site, TOKEN, command=slow, patience_s=0.0)
    run = actions.begin("shop.orders", {"action": "compact"})
    while not run.lines:
        assert not run.end_event.wait(0.02), [*run.lines]
    actions.close(patience_s)
    assert run.end_event.wait(120)
    assert run.state == "failed"
