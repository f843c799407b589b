"""The page of errors, made of the classes in `tenuto.errors`; written by `scripts/describe_reference.py --write`.

What an error says by itself comes from its class (`engine`, `fix`); where that depends on the case, the docstring has
paragraphs `Engine:` and `Next:`.
"""

from __future__ import annotations

import inspect
import re

from tenuto import errors

__all__ = ["describe_errors", "incomplete"]

HEAD = """\
# Errors

Made of the docstrings by `python scripts/describe_reference.py --write`; a test keeps it true.

Every exception of Tenuto is in `tenuto.errors` and derives from `TenutoError`. The class above it says whose fault it
is. The code never changes its meaning and is never used again for something else: search for it. Fields are attributes,
also after the error was stored and read again.

The text of an error answers three questions, and so does this page: what happened, what the engine did, what to do
next.

*Recorded* means it is part of the history and the same on every replay. *Parked* means that workflow code never sees
it: the run waits, with this as its reason, until code that fits is deployed or somebody says `resume`.

Python's own are used where they say it best: `TimeoutError` for the `timeout=` of waits and calls, `ValueError` and
`TypeError` for arguments. Cancellation is `asyncio.CancelledError`.
"""
FAULTS = {
    "CodeFault": "Workflow or step code",
    "CallerFault": "A call to Tenuto",
    "EnvironmentFault": "Store, network, disk, deployment",
    "EngineFault": "A bug of ours",
}
FAMILIES = """\
## Directives and TWF

`DirectiveError` carries a code of the family `DIRxxx`, listed in [directives](directives.md); `TwfError` one of the
family `TWFxxx`, listed in [TWF](twf.md).
"""


def describe_errors() -> str:
    """The whole page."""
    parts = [HEAD]
    for base_name, title in FAULTS.items():
        base = getattr(errors, base_name)
        parts.append(f"## {title}\n\nAll of these are `{base_name}`.\n")
        mine = [error for error in _classes() if issubclass(error, base) and error is not base]
        parts += [_describe(error) for error in sorted(mine, key=_by_code)]
    parts += [FAMILIES, f"## Not an error\n\n### Evicted\n\n{inspect.getdoc(errors.Evicted)}\n"]
    return "\n".join(parts)


def incomplete() -> list[str]:
    """Errors that can be raised and do not answer all three questions."""
    raised = [error for error in _classes() if error.__name__ not in {*FAULTS, "ChildError"}]
    return [error.__name__ for error in raised if not all(_answers(error))]


def _classes() -> list[type[errors.TenutoError]]:
    known = [getattr(errors, name) for name in errors.__all__]
    return [item for item in known if issubclass(item, errors.TenutoError) and item is not errors.TenutoError]


def _by_code(error: type[errors.TenutoError]) -> tuple[str, str]:
    return vars(error).get("code", "~"), error.__name__


def _describe(error: type[errors.TenutoError]) -> str:
    code = vars(error).get("code")
    lines = [f"### {code} {error.__name__}\n" if code else f"### {error.__name__}\n"]
    labels = ("happened", "engine", "next")
    lines += [f"- **{label}**: {text}" for label, text in zip(labels, _answers(error), strict=True) if text]
    above = [f"`{base.__name__}`" for base in error.__bases__ if not base.__name__.startswith("_")]
    above = [name for name in above if name.strip("`") not in FAULTS]
    if above:
        lines.append(f"- **is also**: {', '.join(above)}")
    fields = _fields(error)
    if fields:
        lines.append(f"- **fields**: {', '.join(f'`{name}`' for name in fields)}")
    return "\n".join(lines) + "\n"


def _answers(error: type[errors.TenutoError]) -> tuple[str, str, str]:
    doc = " ".join((inspect.cleandoc(error.__doc__ or "")).split())
    happened, engine, fix = re.fullmatch(r"(.*?)(?: Engine: (.*?))?(?: Next: (.*))?", doc).groups()  # type: ignore[union-attr]
    return happened, engine or _sentence(error.engine), fix or _sentence(error.fix)


def _sentence(text: str | None) -> str:
    return f"{text}." if text else ""


def _fields(error: type[errors.TenutoError]) -> list[str]:
    """What the error keeps of what its constructor was told."""
    for base in error.__mro__:
        if base is errors.TenutoError:
            return []
        if "__init__" in vars(base):
            kept = re.findall(r"^        self\.(\w+) = ", inspect.getsource(base.__init__), re.MULTILINE)
            return [name for name in kept if name not in ("fix_text", "code")]
    return []
