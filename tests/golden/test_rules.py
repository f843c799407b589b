"""Every rule and every case that a comment or a test cites is written down in docs/internals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = ROOT / "docs" / "internals"
RULE = re.compile(r"\b(?:P|V|Q|D|G|T|I|X|ST)[0-9]{1,2}\b")
CASE = re.compile(r"\b[KMRDTES][0-9]{3}\b")
DEFINED = re.compile(r"^(?:\| |- )((?:P|V|Q|D|G|T|I|X|ST)[0-9]{1,2}|[KMRDTES][0-9]{3})\b", re.MULTILINE)
LINT = re.compile(r"noqa: [A-Z0-9, ]+")  # codes of a linter
PROSE = re.compile(r'#[^\n]*|--[^\n]*|"""(?:.|\n)*?"""')  # comments of Python and SQL, docstrings


def defined() -> list[str]:
    return [tag for page in sorted(PAGES.glob("*.md")) for tag in DEFINED.findall(page.read_text())]


def cited() -> Iterator[tuple[str, str]]:
    """Tags in comments and docstrings, and where they stand. Code has names that look the same."""
    for folder in ("src", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".py", ".sql") or "cases" in path.parts:
                continue
            for found in PROSE.findall(path.read_text()):
                prose = LINT.sub("", found)
                for tag in (*RULE.findall(prose), *CASE.findall(prose)):
                    yield tag, str(path.relative_to(ROOT))


def test_every_tag_that_is_cited_is_defined() -> None:
    known = set(defined())
    unknown = sorted({(tag, place) for tag, place in cited() if tag not in known})
    assert not unknown


def test_a_tag_is_defined_once() -> None:
    tags = defined()
    assert sorted(tags) == sorted(set(tags))


def test_tags_are_found_at_all() -> None:
    """Both halves of the comparison: the pages and the source have each kind of rule."""
    assert {"P1", "V1", "Q4", "D6", "T9", "G11", "X1", "ST7", "K001", "M001", "R001", "D001", "T001"} <= set(defined())
    assert {"P4", "V7", "Q4", "D8"} <= {tag for tag, _ in cited()}
