"""Locations and their text: what is written parses back, and no two places share a text or a key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.codec.rows import RunEncoder
from tenuto.errors import InvalidNameError
from tenuto.kernel.location import (
    ROOT,
    branch,
    check_name,
    handler,
    iteration,
    parse,
    patch,
    task,
    text,
    use,
)

names = st.one_of(
    st.sampled_from(
        ["a", "b", "task", "a/b", "~1", "a#2", "@0", "[1]", "m!2", "?p", "%", "%2F", "\x00", "\x1f", "ä", " "]
    ),
    st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8),
)
counts = st.integers(0, 300)
segments = st.one_of(
    st.builds(use, names, counts),
    st.builds(iteration, names, counts),
    st.builds(branch, names, counts),
    st.builds(task, counts),
    st.builds(handler, names, counts),
)
locations = st.lists(segments, max_size=5).map(tuple)


@given(locations)
def test_a_text_parses_back_to_its_location(location):
    """K005"""
    assert parse(text(location)) == location


@given(locations, locations)
def test_no_two_locations_share_a_text_or_a_key(first, second):
    """K005, section 7: two locations with one key"""
    assert (text(first) == text(second)) is (first == second)
    encoder = RunEncoder()
    for location in (first, second):
        encoder._key(location, [])
    assert (encoder.history_key(first) == encoder.history_key(second)) is (first == second)


@pytest.mark.parametrize(
    ("location", "written"),
    [
        (ROOT, ""),
        (("charge",), "charge"),
        ((use("charge", 1),), "charge#2"),
        (("shop", iteration("shop", 3), use("charge", 1)), "shop/~3/charge#2"),
        (("parallel", branch("parallel", 2), "s"), "parallel/[2]/s"),
        ((task(0), "s"), "@0/s"),
        (("receive", handler("add", 3), "s"), "receive/add!3/s"),
        ((patch("p/q"),), "?p%2Fq"),
        (("a/b~#@[]!?%",), "a%2Fb%7E%23%40%5B%5D%21%3F%25"),
    ],
)
def test_the_texts_of_the_specification(location, written):
    """K005, 2"""
    assert text(location) == written
    assert parse(written) == location


@pytest.mark.parametrize("written", ["a//b", "a#1", "a#0", "/", "a/", "a%2", "~", "a[x]", "a#2#3", "@", "a!!1"])
def test_what_no_location_has_as_its_text_is_refused(written):
    with pytest.raises(ValueError, match=r"location|int"):
        parse(written)


@pytest.mark.parametrize("name", ["", "x" * 256, "\ud800", None, 3])
def test_a_name_is_a_text_of_1_to_255_bytes(name):
    with pytest.raises(InvalidNameError):
        check_name(name)
    assert check_name("é" * 127) == "é" * 127
