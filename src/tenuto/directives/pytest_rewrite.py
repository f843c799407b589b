"""Directives in test modules: our transform runs before pytest's rewriting of assertions.

pytest loads test modules itself. Its plugin for Tenuto calls `install_rewrite` when it is configured; where pytest has
changed so far that this cannot work, a marked test module fails to be collected instead of silently not being durable.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from tenuto.directives.bytecode import carry_manifest
from tenuto.directives.caches import VERSION
from tenuto.directives.errors import Span, as_error, describe, errors_of, make_finding
from tenuto.directives.importer import workflow_code_of
from tenuto.directives.marker import has_directive
from tenuto.directives.transform import transform
from tenuto.model import ids, view

__all__ = ["check_collected", "install_rewrite"]

_MARK: Final = "_tenuto_rewrites"


def install_rewrite() -> bool:
    """Put our transform in front of pytest's rewriting; False if this pytest does not allow it.

    For test modules only: what they import is compiled once the hook is installed as well (`install()`).
    """
    view.compile_with(workflow_code_of)
    try:
        from _pytest.assertion import rewrite
    except ImportError:
        return False
    stock: Callable[..., None] | None = getattr(rewrite, "rewrite_asserts", None)
    tail = getattr(rewrite, "PYC_TAIL", None)
    if stock is None or not isinstance(tail, str) or not tail.endswith(".pyc"):
        return False
    if getattr(stock, _MARK, False):
        return True

    def rewrite_asserts(mod: ast.Module, source: bytes, module_path: str | None = None, config: Any = None) -> None:
        # Decorators work uncompiled, and test modules define things twice on purpose: only directives need us here.
        if module_path is not None and has_directive(source) and ids.is_project_file(module_path):
            _compile_into(mod, source, module_path)
        stock(mod, source, module_path, config)

    setattr(rewrite_asserts, _MARK, True)
    patched: Any = rewrite
    patched.rewrite_asserts = rewrite_asserts
    # Files that pytest rewrote without us must not be taken for ours, nor the other way round.
    patched.PYC_TAIL = f"{tail.removesuffix('.pyc')}-tenuto{VERSION}.pyc"
    return True


def _compile_into(tree: ast.Module, source: bytes, filename: str) -> None:
    result = transform(source, ids.id_path(filename), "step")
    if errors_of(result.findings):
        raise as_error(result.findings, filename, result.lines)
    if result.is_changed and result.code is not None:
        carry_manifest(result.code, result)
        tree.body = result.code.body


def check_collected(filename: str, source: bytes, namespace: dict[str, Any]) -> str | None:
    """The text of DIR122 for a test module with directives that was loaded uncompiled; None if all is well."""
    if not has_directive(source) or "__tenuto_manifest__" in namespace or not ids.is_project_file(filename):
        return None
    if not transform(source, ids.id_path(filename), "step").is_changed:
        return None
    why = "pytest loaded it without calling the hook"
    return describe(make_finding("DIR122", filename, Span(1, 1, 1, 1), {"why": why}))
