"""Which names are variables, and where.

One scope per workflow, made of its parameters and every name assigned, bound or iterated in its body and handlers.
Local are handler parameters, loop variables inside handlers, and names of a query that are no workflow variable.
"""

from __future__ import annotations

from .ast import Handler, Workflow
from .survey import Survey

__all__ = ["Scope"]


class Scope:
    """The variables of one definition."""

    def __init__(self, survey: Survey) -> None:
        definition = survey.definition
        self.params = frozenset(param.name.name for param in definition.params)
        self.locals: dict[Handler, set[str]] = {}
        if isinstance(definition, Workflow):
            for handler in definition.handlers:
                self.locals[handler] = {param.name.name for param in handler.params}
        self.shared: set[str] = set(self.params)
        assigned = [write for write in survey.writes if write.how not in ("change", "loop")]
        for write in survey.writes:
            if write.handler is None:
                if write.how != "change":
                    self.shared.add(write.name)
            elif write.how == "loop":
                self.locals[write.handler].add(write.name)
        for write in assigned:
            where = write.handler
            if where is not None and where.kind != "query" and write.name not in self.locals[where]:
                self.shared.add(write.name)
        for write in assigned:
            where = write.handler
            if where is not None and where.kind == "query" and write.name not in self.shared:
                self.locals[where].add(write.name)

    def has(self, name: str, handler: Handler | None) -> bool:
        return name in self.shared or (handler is not None and name in self.locals[handler])

    def is_local(self, name: str, handler: Handler | None) -> bool:
        return handler is not None and name in self.locals[handler]

    def visible(self, handler: Handler | None) -> set[str]:
        return self.shared | (self.locals[handler] if handler is not None else set[str]())
