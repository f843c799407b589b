"""Mechanical repairs: for a diagnostic whose hint can be carried out by a machine, the edits that do it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from .ast import Argument, Call, CallExpr, FieldAccess, File, Name, Workflow
from .diagnostics import Diagnostic
from .flow import statements_below
from .program import Program
from .source import Source
from .survey import Use

__all__ = ["Edit", "Fix", "fixes_for", "refactorings_at"]

_SUGGESTION: Final = re.compile(r'did you mean "([A-Za-z_][A-Za-z0-9_]*)"\?')
_LINE: Final = re.compile(r"[^\n]*")


@dataclass(frozen=True, slots=True)
class Edit:
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    title: str
    edits: tuple[Edit, ...]


def fixes_for(program: Program, file: File, found: Diagnostic) -> Iterator[Fix]:
    """Every repair offered for a diagnostic, the best first."""
    similar = _SUGGESTION.search(found.hint or "")
    if similar is not None:
        yield Fix(f'Change to "{similar[1]}"', (Edit(found.start, found.end, similar[1]),))
    create = _CREATORS.get(found.code)
    if create is not None:
        yield from create(program, file, found)
    repair = _REPAIRS.get(found.code)
    if repair is not None:
        yield from repair(file.source, found)


# --- one line


def _line_around(source: Source, offset: int) -> tuple[int, int]:
    """The line's start and end, line break excluded."""
    start = source.text.rfind("\n", 0, offset) + 1
    match = _LINE.match(source.text, offset)
    end = match.end() if match is not None else offset
    return start, end - (1 if source.text[end - 1 : end] == "\r" else 0)


def _code_end(source: Source, offset: int) -> int:
    """Where the code of the line ends, before blanks and a comment."""
    _, end = _line_around(source, offset)
    code = re.match(r'(?:"[^"]*"|[^"#])*', source.text[offset:end])
    return offset + len((code[0] if code is not None else "").rstrip())


def _indentation(source: Source, offset: int) -> str:
    start, _ = _line_around(source, offset)
    match = re.match(r"[ \t]*", source.text[start:offset])
    return match[0] if match is not None else ""


def _unit(source: Source) -> str:
    """One level of this file's indentation."""
    match = re.search(r"^([ \t]+)\S", source.text, re.MULTILINE)
    return "\t" if match is not None and match[1].startswith("\t") else "    "


def _replace(title: str, text: str) -> Callable[[Source, Diagnostic], Iterator[Fix]]:
    def repair(source: Source, found: Diagnostic) -> Iterator[Fix]:
        yield Fix(title, (Edit(found.start, found.end, text),))

    return repair


def _parenthesise(source: Source, found: Diagnostic) -> Iterator[Fix]:
    end = _code_end(source, found.start)
    if source.text[end - 1 : end] == ":":
        end -= 1
    condition = source.text[found.start : end].rstrip()
    yield Fix("Put it in parentheses", (Edit(found.start, found.start + len(condition), f"({condition})"),))


def _foreign_operator(source: Source, found: Diagnostic) -> Iterator[Fix]:
    written = source.text[found.start : found.end]
    word = {"!": "not ", "&&": "and", "||": "or"}[written]
    yield Fix(f"Write '{word.strip()}'", (Edit(found.start, found.end, word),))


def _wrap_type(source: Source, found: Diagnostic) -> Iterator[Fix]:
    text = source.text[found.start : found.end]
    yield Fix("Put the type in parentheses", (Edit(found.start, found.end, f"({text})"),))


def _add_units(source: Source, found: Diagnostic) -> Iterator[Fix]:
    if source.text[found.start : found.end].isdigit():
        for unit, name in (("s", "seconds"), ("m", "minutes"), ("h", "hours"), ("d", "days")):
            yield Fix(f"Make it {name}", (Edit(found.end, found.end, unit),))


def _return_type(source: Source, found: Diagnostic) -> Iterator[Fix]:
    end = _code_end(source, found.start)
    if source.text[end - 1 : end] == ":":
        yield Fix("Add a return type", (Edit(end - 1, end - 1, " -> (Result)"),))


def _quote(source: Source, found: Diagnostic) -> Iterator[Fix]:
    text = source.text[found.start : found.end]
    if text.isidentifier() and text != "workflow":
        yield Fix("Make it a string", (Edit(found.start, found.end, f'"{text}"'),))


def _drop_before(word: str) -> Callable[[Source, Diagnostic], Iterator[Fix]]:
    """Remove the words of a line before the diagnosed one."""

    def repair(source: Source, found: Diagnostic) -> Iterator[Fix]:
        start, _ = _line_around(source, found.start)
        begin = source.text.find(word, start, found.start) if word else start + len(_indentation(source, found.start))
        if begin >= 0:
            dropped = source.text[begin : found.start].strip()
            yield Fix(f"Drop '{dropped}'", (Edit(begin, found.start, ""),))

    return repair


def _drop_word(source: Source, found: Diagnostic) -> Iterator[Fix]:
    word = source.text[found.start : found.end]
    end = found.end + (source.text[found.end : found.end + 1] == " ")
    yield Fix(f"Drop '{word}'", (Edit(found.start, end, ""),))


def _await_to_arrow(source: Source, found: Diagnostic) -> Iterator[Fix]:
    start, _ = _line_around(source, found.start)
    begin = start + len(_indentation(source, found.start))
    place = source.text[begin : found.start].rstrip("= \t")
    end = _code_end(source, found.start)
    if place.isidentifier():
        yield Fix("Use the arrow form", (Edit(begin, found.start, ""), Edit(end, end, f" -> {place}")))


def _call_to_arrow(source: Source, found: Diagnostic) -> Iterator[Fix]:
    """The call is on the code line above the options."""
    start, _ = _line_around(source, found.start)
    above, _ = _line_around(source, max(0, start - 1))
    match = re.match(r"([ \t]*)([A-Za-z_]\w*)[ \t]*=[ \t]*", source.text[above:start])
    if match is not None:
        end = _code_end(source, above + match.end())
        begin = above + match.end(1)
        yield Fix("Use the arrow form", (Edit(begin, above + match.end(), ""), Edit(end, end, f" -> {match[2]}")))


def _spawn_instead(source: Source, found: Diagnostic) -> Iterator[Fix]:
    start, _ = _line_around(source, found.start)
    begin = source.text.find("detach", start, found.start)
    if begin >= 0:
        yield Fix("Use spawn", (Edit(begin, begin + len("detach"), "spawn"),))


def _bind_handle(source: Source, found: Diagnostic) -> Iterator[Fix]:
    end = _code_end(source, found.start)
    yield Fix("Bind the handle", (Edit(end, end, " -> handle"),))
    yield Fix("Use detach", (Edit(found.start, found.start + len("spawn"), "detach"),))


def _nest_else_if(source: Source, found: Diagnostic) -> Iterator[Fix]:
    """`else if (…):` becomes `else:` and an `if` in it; what belongs to it moves one level to the right."""
    start, end = _line_around(source, found.start)
    lead = _indentation(source, found.start)
    unit = _unit(source)
    word_end = found.start + (len("elif") if source.text.startswith("elif", found.start) else len("if"))
    edits = [Edit(start + len(lead), word_end, f"else:\n{lead}{unit}if")]
    text = source.text
    at = end + 1
    while at < len(text):
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        line = text[at:line_end]
        code = line.lstrip(" \t")
        width = len(line) - len(code)
        if code.strip() and width <= len(lead) and not (width == len(lead) and re.match(r"(else|elif)\b", code)):
            break
        if code.strip():
            edits.append(Edit(at, at, unit))
        at = line_end + 1
    yield Fix("Nest the if in else:", tuple(edits))


def _remove_line(source: Source, found: Diagnostic) -> Iterator[Fix]:
    start, end = _line_around(source, found.start)
    after = source.text.find("\n", end)
    yield Fix("Remove the line", (Edit(start, len(source.text) if after < 0 else after + 1, ""),))


_REPAIRS: Final[dict[str, Callable[[Source, Diagnostic], Iterator[Fix]]]] = {
    "TWF111": _add_units,
    "TWF121": _replace("Add ':'", ":"),
    "TWF124": _wrap_type,
    "TWF125": _parenthesise,
    "TWF127": lambda source, found: iter((Fix("Add a type", (Edit(found.end, found.end, ": T"),)),)),
    "TWF128": _nest_else_if,
    "TWF129": _return_type,
    "TWF134": _remove_line,
    "TWF135": _call_to_arrow,
    "TWF136": _await_to_arrow,
    "TWF137": _drop_before(""),
    "TWF138": _drop_word,
    "TWF139": _quote,
    "TWF140": _spawn_instead,
    "TWF145": lambda source, found: iter((Fix("Await it", (Edit(found.start, found.start, "await "),)),)),
    "TWF148": _foreign_operator,
    "TWF408": _remove_line,
    "TWF413": _drop_word,
    "TWF414": _bind_handle,
}


# --- missing definitions and handlers


def _argument_params(args: tuple[Argument, ...]) -> str:
    names: list[str] = []
    for number, arg in enumerate(args, 1):
        value = arg.value
        if arg.key is not None:
            name = arg.key.name
        elif isinstance(value, Name):
            name = value.name
        elif isinstance(value, FieldAccess):
            name = value.field.name
        elif isinstance(value, CallExpr) and isinstance(value.callee, Name):
            name = value.callee.name
        else:
            name = f"arg{number}"
        names.append(name if name not in names else f"{name}{number}")
    return ", ".join(f"{name}: any" for name in names)


def _use_at(program: Program, path: str, offset: int) -> Use | None:
    for one in program.resolution.surveyed:
        if one.file.path == path and one.definition.start <= offset <= one.definition.end:
            for use in one.survey.uses:
                if use.target.start <= offset < use.target.end:
                    return use
    return None


def _create_definition(kind: str) -> Callable[[Program, File, Diagnostic], Iterator[Fix]]:
    def create(program: Program, file: File, found: Diagnostic) -> Iterator[Fix]:
        source = file.source
        name = source.text[found.start : found.end]
        use = _use_at(program, file.path, found.start)
        args: tuple[Argument, ...] = getattr(use.target, "args", ()) if use is not None else ()
        returns = " -> (any)" if use is not None and use.result else ""
        unit = _unit(source)
        body = f"{unit}# bound to a Python function" if kind == "activity" else f"{unit}close"
        ending = "" if source.text.endswith("\n") else "\n"
        text = f"{ending}\n{kind} {name}({_argument_params(args)}){returns}:\n{body}\n"
        at = len(source.text)
        yield Fix(f"Create {kind} {name}", (Edit(at, at, text),))

    return create


def _create_handler(kind: str) -> Callable[[Program, File, Diagnostic], Iterator[Fix]]:
    def create(program: Program, file: File, found: Diagnostic) -> Iterator[Fix]:
        source = file.source
        name = source.text[found.start : found.end]
        use = _use_at(program, file.path, found.start)
        bound = ", ".join(f"{ident.name}: any" for ident in use.result) if use is not None else ""
        for definition in file.definitions:
            if isinstance(definition, Workflow) and definition.start <= found.start < definition.end:
                line = source.position(
                    definition.handlers[-1].end if definition.handlers else definition.name.start
                ).line
                at = source.offset(line + 1, 1) if line < source.line_count else len(source.text)
                unit = _unit(source)
                returns = " -> (any)" if kind == "update" else ""
                inside = "return null" if kind == "update" else f"{name[0].lower()}{name[1:]}_received = true"
                text = f"{unit}{kind} {name}({bound}){returns}:\n{unit}{unit}{inside}\n"
                yield Fix(f"Create {kind} {name}", (Edit(at, at, text),))

    return create


_CREATORS: Final[dict[str, Callable[[Program, File, Diagnostic], Iterator[Fix]]]] = {
    "TWF301": _create_definition("activity"),
    "TWF302": _create_definition("workflow"),
    "TWF303": _create_handler("signal"),
    "TWF304": _create_handler("update"),
}


# --- old forms that are no mistakes


def refactorings_at(file: File, start: int, end: int) -> Iterator[Fix]:
    """Conversions offered in a range without any diagnostic: the assignment form of a call into the arrow form."""
    source = file.source
    for definition in file.definitions:
        handlers = definition.handlers if isinstance(definition, Workflow) else ()
        for body in (definition.body, *(handler.body for handler in handlers)):
            for statement in statements_below(body):
                if not isinstance(statement, Call) or statement.form != "assign":
                    continue
                if statement.start <= end and start <= statement.end:
                    target = statement.target
                    name = source.text[statement.start : target.start].rstrip("= \t")
                    edits = (Edit(statement.start, target.start, ""), Edit(target.end, target.end, f" -> {name}"))
                    yield Fix("Convert to the arrow form", edits)
