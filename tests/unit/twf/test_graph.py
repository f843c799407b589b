"""Pictures of workflows: ids that are locations, edges that are the control flow, and files that stand alone."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tenuto.twf.ast import Workflow
from tenuto.twf.diagrams import dependencies_mermaid, draw
from tenuto.twf.graph import draw_workflow
from tenuto.twf.program import load
from tenuto.twf.source import Source
from tenuto.twf.svg import drawings_svg
from tenuto.twf.symbols import dependencies

SHIP = """\
workflow Ship(order: Order) -> (Receipt):
    signal Cancel(reason: string):
        cancelled = reason
    total = 0
    note = "x < y & z"
    for (item in order.items):
        activity Price(item) -> price
        total = total + price
    await all:
        activity Reserve(order) -> stock
        for (item in order.items):
            activity Pack(item) -> boxes
    for:
        await one:
            signal Cancel -> (why):
                close failed why
            timer(2h):
                activity Price(stock)
            activity Pick(boxes) -> truck:
                break
    if (total > 100):
        workflow Pay(total) -> receipt
    else:
        activity Price(total) -> receipt
    close receipt

workflow Pay(cents: int) -> (int):
    await timer(1d)
    close cents

activity Price(x: any) -> (int):
    return x
activity Reserve(x: any) -> (int):
    return x
activity Pack(x: any) -> (int):
    return x
activity Pick(x: any) -> (int):
    return x
"""


@pytest.fixture(scope="module")
def ship() -> dict[str, Any]:
    text = draw(load([Source("ship.twf", SHIP)]), "json", "Ship")
    assert text is not None
    found: dict[str, Any] = json.loads(text)["workflows"][0]
    return found


def picture(form: str) -> str:
    text = draw(load([Source("ship.twf", SHIP)]), form)
    assert text is not None
    return text


def test_the_ids_of_nodes_are_locations(ship: dict[str, Any]) -> None:
    assert [node["id"] for node in ship["nodes"]] == [
        "start",
        "set:4:5",
        "for",
        "for/~*/Price",
        "for/~*/set:8:9",
        "all",
        "all/0/Reserve",
        "all/1/[*]",
        "all/1/[*]/Pack",
        "for#2",
        "for#2/~*/one",
        "for#2/~*/one/0/signal:15:13",
        "for#2/~*/one/0/case/close:16:17",
        "for#2/~*/one/1/timer",
        "for#2/~*/one/1/case/Price",
        "for#2/~*/one/2/Pick",
        "if:21:5",
        "child:Pay",
        "Price",
        "close:25:5",
    ]
    assert ship["handlers"][0]["nodes"][1]["id"] == "signal:Cancel!*/set:3:9"


def test_the_edges_are_the_control_flow(ship: dict[str, Any]) -> None:
    edges = {(edge["from"], edge["to"], edge["label"]) for edge in ship["edges"]}
    assert {
        ("for", "for/~*/Price", "each"),
        ("for/~*/set:8:9", "for", ""),
        ("for", "all", "done"),
        ("for#2/~*/one/1/case/Price", "for#2", ""),
        ("for#2/~*/one/2/Pick", "if:21:5", ""),
        ("if:21:5", "child:Pay", "yes"),
        ("if:21:5", "Price", "no"),
    } <= edges
    assert not [edge for edge in edges if edge[0].endswith("close:16:17")]
    assert not [edge for edge in edges if edge[0] == "for#2" and edge[1] != "for#2/~*/one"]


def test_every_edge_joins_two_nodes(ship: dict[str, Any]) -> None:
    known = {node["id"] for node in ship["nodes"]}
    assert all(edge["from"] in known and edge["to"] in known for edge in ship["edges"])


@pytest.mark.parametrize(("form", "suffix"), [("mermaid", "mmd"), ("dot", "dot"), ("svg", "svg")])
def test_a_picture_is_the_one_that_was_looked_at(form: str, suffix: str) -> None:
    path = Path(__file__).parent / "pictures" / f"ship.{suffix}"
    if os.environ.get("TENUTO_UPDATE_SNAPSHOTS"):
        path.write_text(picture(form), encoding="utf-8")
    assert picture(form) == path.read_text(encoding="utf-8")


def test_the_svg_is_well_formed_and_loads_nothing() -> None:
    text = picture("svg")
    root = ElementTree.fromstring(text)  # noqa: S314  # our own output
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not re.search(r"href|<script|@import|url\((?!#)", text)
    places = {node.get("data-location") for node in root.iter() if node.get("data-location")}
    assert {"for/~*/Price", "all/0/Reserve", "for#2/~*/one/1/timer", "child:Pay"} <= places


def boxes(text: str) -> list[tuple[float, float, float, float]]:
    pattern = r'<rect class="face" x="([\d.-]+)" y="([\d.-]+)" width="([\d.]+)" height="([\d.]+)"'
    return [tuple(map(float, found)) for found in re.findall(pattern, text)]  # type: ignore[misc]


def test_cards_in_the_svg_do_not_overlap_and_stay_inside() -> None:
    text = picture("svg")
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', text)
    assert size is not None
    cards = boxes(text)
    assert len(cards) > 15
    for number, (x, y, width, height) in enumerate(cards):
        assert x >= 0
        assert x + width <= float(size[1])
        assert y + height <= float(size[2])
        for other_x, other_y, other_width, other_height in cards[number + 1 :]:
            apart = x + width <= other_x or other_x + other_width <= x
            assert apart or y + height <= other_y or other_y + other_height <= y


def test_text_is_escaped_in_every_form() -> None:
    assert "x &lt; y &amp; z" in picture("svg")
    assert "#quot;x &lt; y" in picture("mermaid")
    assert '\\"x < y & z\\"' in picture("dot")


def test_there_is_no_picture_of_an_unknown_workflow() -> None:
    assert draw(load([Source("ship.twf", SHIP)]), "svg", "Nope") is None


def test_dependencies_keep_remote_and_undefined_names_apart() -> None:
    text = (
        "workflow W():\n    activity A()\n    spawn workflow V() -> h\n"
        '    nexus "bank" workflow P()\n    activity Nope()\n'
    )
    found = dependencies(
        load([Source("a.twf", text), Source("b.twf", "activity A():\n    f()\nworkflow V():\n    close\n")])
    )
    assert [(edge.caller, edge.callee, edge.mode) for edge in found.edges] == [
        ("workflow:W", "activity:A", "activity"),
        ("workflow:W", "workflow:V", "spawn"),
    ]
    assert [(one.edge.callee, one.why, one.namespace) for one in found.unresolved] == [
        ("workflow:P", "remote", "bank"),
        ("activity:Nope", "undefined", None),
    ]
    assert dependencies_mermaid(found).count("-.->") == 2


def test_what_had_to_be_cut_is_whole_where_one_points_at_it() -> None:
    long = "a" * 60
    text = (
        f"workflow W(x: int):\n    {long} = x + 1\n    activity Pack({long}, x)\n    if ({long} > 1):\n        x = 2\n"
        f"    for ({long} < 9):\n        activity Pack(x, x)\n    await one:\n        activity Pack({long}, {long}):\n"
        f"            close {long}\n\nactivity Pack(a: int, b: int):\n    # bound\n"
    )
    (file,) = load([Source("a.twf", text)]).files
    workflow = file.definitions[0]
    assert isinstance(workflow, Workflow)
    picture = drawings_svg([draw_workflow(file, workflow)])
    tips = re.findall(r"<title>(.*?)</title>", picture, re.DOTALL)
    assert sum(long in tip for tip in tips) == 6
    assert not any("…" in tip for tip in tips)
    assert all(re.search(r"line \d+$", tip) for tip in tips if long in tip)
