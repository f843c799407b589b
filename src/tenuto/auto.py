"""`import tenuto.auto` installs the import hook: directives in modules imported after it are compiled."""

from tenuto.directives import install

__all__: list[str] = []

install()
