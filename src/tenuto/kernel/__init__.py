"""Placeholder docstring, replaced by the package's owner."""
