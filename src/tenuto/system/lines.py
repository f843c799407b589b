"""Lines of text that stay lines, whatever a user, a message or an error puts into them.

Rules:

1. Ids, names and texts of errors come from outside. In a line of the log, or on a terminal, what is not a visible
   character is written as an escape: it can end no line and move no cursor.
2. A traceback has lines of its own. They are escaped in the same way and indented, so that none looks like a line of
   the log: the text of an error stands in it, line breaks and all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

__all__ = ["escape_log_lines", "safe"]

_LOGGERS: Final = ("tenuto.host", "tenuto.store", "tenuto.codec", "tenuto.temporal")
_NUMBERS: Final = (int, float, type(None))
_FORMATTER: Final = logging.Formatter()


def safe(text: str) -> str:
    """A text on one line, with everything that is not a visible character written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _safe_argument(value: object) -> object:
    return value if isinstance(value, _NUMBERS) else safe(str(value))


def _escape(record: logging.LogRecord) -> bool:
    if isinstance(record.args, Mapping):
        record.args = {name: _safe_argument(value) for name, value in record.args.items()}
    elif record.args:
        record.args = tuple(map(_safe_argument, record.args))
    if record.exc_info and not record.exc_text:
        text = _FORMATTER.formatException(record.exc_info)
        record.exc_text = "\n".join([f"  {safe(line)}" for line in text.split("\n")])
    return True


def escape_log_lines() -> None:
    """Let what Tenuto logs pass `safe`. Done again it is done once."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_escape)
