"""The language server: the compiler, spoken to by editors. It owns no grammar."""

from __future__ import annotations

from .server import capabilities, serve

__all__ = ["capabilities", "serve"]
