"""Directives: `"use step"` and `"use workflow"` in Python source, compiled when it is imported."""

from tenuto.directives.importer import install

__all__ = ["install"]
