"""What comes from outside ends no line of the log and moves no cursor."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

import tenuto
from tenuto.system.lines import safe

NASTY = "a\nERROR tenuto.host: all is lost\r\x1b[31m\u202e"


@pytest.fixture(params=["tenuto.host", "tenuto.store", "tenuto.codec", "tenuto.temporal"])
def logged(request: pytest.FixtureRequest) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger of ours, and what a handler like any program's writes of it."""
    assert tenuto.__all__  # importing it is all that is needed
    logger, out = logging.getLogger(request.param), io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    yield logger, out
    logger.removeHandler(handler)


def test_ids_and_texts_of_errors_are_escaped(logged: tuple[logging.Logger, io.StringIO]) -> None:
    logger, out = logged
    logger.warning("run %s: %s", NASTY, ValueError(NASTY))
    logger.warning("%(run)s", {"run": NASTY})
    logger.warning("%s of %d runs, %.1f s", "x", 3, 1.5)
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() and line.startswith("WARNING ") for line in lines)
    assert lines[2].endswith("x of 3 runs, 1.5 s")


def test_a_traceback_cannot_be_taken_for_lines_of_the_log(logged: tuple[logging.Logger, io.StringIO]) -> None:
    logger, out = logged
    try:
        raise ValueError(NASTY)
    except ValueError:
        logger.exception("run %s could not be advanced", "r")
    first, *others = out.getvalue().split("\n")[:-1]
    assert first.endswith("run r could not be advanced")
    assert others
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def test_a_visible_text_stays_as_it_is() -> None:
    assert safe("Ærlig talt, 日本語") == "Ærlig talt, 日本語"
    assert safe(NASTY) == "a\\nERROR tenuto.host: all is lost\\r\\x1b[31m\\u202e"
