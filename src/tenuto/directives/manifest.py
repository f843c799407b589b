"""The manifest: which workflows, steps and classes a file defines, without importing it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

from tenuto.directives.scan import Scan

__all__ = ["Manifest", "dump", "gone", "ids_of", "make_manifest", "merge", "sources_of"]

Section: TypeAlias = Literal["workflows", "steps", "classes"]
Entries: TypeAlias = dict[str, dict[str, dict[str, str]]]  # path -> identifier -> {"stepId": id}
Manifest: TypeAlias = dict[str, Entries]

SECTIONS: Final[dict[Section, str]] = {"workflows": "workflowId", "steps": "stepId", "classes": "classId"}


def make_manifest(scan: Scan) -> Manifest:
    """The manifest of one file: sections in order, empty ones left out, keys sorted."""
    found: dict[Section, dict[str, str]] = {"workflows": {}, "steps": {}, "classes": {}}
    for definition in scan.definitions:
        if definition.sort not in ("local", "inert") and not definition.mark.is_computed:
            section: Section = "workflows" if definition.kind == "workflow" else "steps"
            found[section][definition.identifier] = definition.id
    found["classes"].update({entry.identifier: entry.id for entry in scan.classes})
    found["classes"].update({entry.identifier: entry.id for entry in scan.foreign})
    path = scan.source.path
    return {
        section: {path: {name: {key: found[section][name]} for name in sorted(found[section])}}
        for section, key in SECTIONS.items()
        if found[section]
    }


def merge(manifests: Iterable[Manifest]) -> Manifest:
    """One manifest of many files."""
    merged: Manifest = {}
    for manifest in manifests:
        for section, files in manifest.items():
            merged.setdefault(section, {}).update(files)
    return {
        section: {path: merged[section][path] for path in sorted(merged[section])}
        for section in SECTIONS
        if section in merged
    }


def dump(manifest: Manifest, *, version: int | None = None) -> str:
    """The manifest as compact JSON."""
    data: dict[str, object] = dict(manifest)
    if version is not None:
        data["version"] = version
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def sources_of(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    """Every (id, path, identifier) of a manifest."""
    for section, key in SECTIONS.items():
        for path, names in manifest.get(section, {}).items():
            for name, entry in names.items():
                yield entry[key], path, name


def ids_of(manifest: Manifest) -> frozenset[str]:
    """Every id in a manifest."""
    return frozenset(found for found, _, _ in sources_of(manifest))


def gone(old: Manifest, new: Manifest) -> tuple[str, ...]:
    """Ids of `old` that `new` no longer has: runs that need them would find nothing."""
    return tuple(sorted(ids_of(old) - ids_of(new)))
