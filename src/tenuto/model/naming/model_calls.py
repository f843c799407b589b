"""One call of the model: which names it issues, which of its arguments are step bodies, which are run as branches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from tenuto.model.naming.scopes import Assigned, Scope
from tenuto.model.naming.values import Collection, Definition, literals

if TYPE_CHECKING:
    from tenuto.model.naming.survey import Survey

__all__ = ["ModelCall"]

# Where a function of the model takes a name. Those of messages are issued as `signal:NAME` and `send:NAME` too.
_NAMED_AT: Final[dict[str, int]] = {
    "step": 0,
    "loop": 0,
    "removed": 0,
    "patched": 0,
    "deprecate_patch": 0,
    "rollback_checkpoint": 0,
    "wait_for_signal": 0,
    "signal": 1,
}
_MAPPINGS: Final = frozenset({"join", "race"})
# Functions of the model that issue nothing of a name of their own, whatever texts they are given.
_NAMELESS: Final = frozenset(
    {"now", "random", "uuid4", "publish_state", "update_state", "run_info", "step_info", "sleep", "sleep_until"}
    | {"Reply", "NoReply", "Stop", "Continue", "Break", "ContinueAsNew", "Failed", "Reject", "shield", "parallel"}
    | {"side_effect", "all", "any", "delay", "partial_state", "as_step", "as_workflow", "Async", "Update", "hook"}
    | {"FatalError", "RetryableError", "RollbackError", "Retry"}
)
_COMPUTED: Final = "the name given to {call}() is computed"


class ModelCall:
    """Reads one call. `bodies`: arguments that are step bodies; `branches`: those that are run or awaited."""

    def __init__(self, survey: Survey, call: ast.Call, scope: Scope) -> None:
        self._survey = survey
        self._call = call
        self._scope = scope
        self.bodies: set[ast.expr] = set()
        self.branches: set[ast.expr] = set()

    def read(self, path: str, made: ast.Call | None) -> None:
        name = path.rpartition(".")[2]
        owner = path.rpartition(".")[0].rpartition(".")[2]
        self.bodies.update(keyword.value for keyword in self._call.keywords if keyword.arg == "rollback")
        if self._makes_a_definition(name):
            return
        self._read_keywords(name)
        if owner == "Task" and name == "run":
            self._child_or_task("step", "{}")
        elif owner == "Task" or path.startswith("tenuto.errors"):
            self._hand_over([argument for argument in self._call.args if owner == "Task" and name != "delay"])
        elif made is not None:
            self._read_method(name, made)
        elif name in _NAMED_AT:
            self._read_name(name, _NAMED_AT[name])
        elif name in _MAPPINGS:
            self._read_keys(self._argument(0), name)
        elif name in ("spawn", "detach"):
            self._child_or_task("workflow", "child:{}")
        elif name not in _NAMELESS and name != "receive":
            self._read_texts(self._call)
        self._read_callables(name)

    def _makes_a_definition(self, name: str) -> bool:
        """`step(fn)` and `step(**options)` issue nothing."""
        first = self._argument(0)
        if name == "step" and (first is None or (len(self._call.args) == 1 and not isinstance(first, ast.Constant))):
            self.bodies.update(self._call.args)
            return True
        return name in ("workflow", "step_options", "workflow_options")

    # --- names

    def _read_keywords(self, name: str) -> None:
        for keyword in self._call.keywords:
            if keyword.arg is None:
                self._survey.doubt(self._call, self._scope, f"options of {name}() may hold a name")
            elif keyword.arg == "name":
                self._add(keyword.value, name, ("{}",))
            elif keyword.arg in ("updates", "signals"):
                self._read_keys(keyword.value, name)

    def _read_name(self, name: str, position: int) -> None:
        node = self._argument(position)
        if node is None:
            self._survey.doubt(self._call, self._scope, _COMPUTED.format(call=name))
            return
        self._add(node, name, {"wait_for_signal": ("{}", "signal:{}"), "signal": ("send:{}",)}.get(name, ("{}",)))

    def _add(self, node: ast.expr, call: str, forms: tuple[str, ...]) -> None:
        found = literals(node, self._scope)
        if found is None:
            self._survey.doubt(node, self._scope, _COMPUTED.format(call=call))
        else:
            self._survey.names.update(form.format(text) for text in found for form in forms)

    def _read_keys(self, node: ast.expr | None, call: str, depth: int = 0) -> None:
        """The keys of a mapping are names."""
        keys = None if node is None else self._keys(node, self._scope)
        if keys is None:
            self._survey.doubt(node or self._call, self._scope, f"the names given to {call}() are computed")
            return
        for key, scope in keys:
            found = literals(key, scope)
            if found is None:
                self._survey.doubt(key, scope, f"the names given to {call}() are computed")
            else:
                forms = ("{}", "signal:{}", "update:{}")
                self._survey.names.update(form.format(text) for text in found for form in forms)

    def _keys(self, node: ast.expr, scope: Scope) -> list[tuple[ast.expr, Scope]] | None:
        """The keys of a mapping that is written out, or of a variable that holds only such."""
        match node:
            case ast.Dict(keys=keys):
                written = [(key, scope) for key in keys if key is not None]
                return written if len(written) == len(keys) else None
            case ast.Constant(value=None):
                return []
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords) if all(k.arg for k in keywords):
                return [(ast.copy_location(ast.Constant(k.arg), k.value), scope) for k in keywords]
            case ast.Name(id=name):
                around: Scope | None = scope
                while around is not None and name not in around.bindings:
                    around = around.parent
                if around is None:
                    return None
                found = [(key, around) for key in around.keys.get(name, ())]
                for binding in around.bindings[name]:
                    is_written = isinstance(binding, Assigned) and isinstance(binding.value, ast.Dict | ast.Call)
                    keys_here = self._keys(binding.value, around) if is_written else None  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
                    if keys_here is None:
                        return None
                    found += keys_here
                return found
            case _:
                return None

    def _read_texts(self, call: ast.Call) -> None:
        """Of a function this table does not have: any text may be a name."""
        for node in ast.walk(call):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                self._survey.names.update((text, f"signal:{text}", f"send:{text}", f"child:{text}", f"update:{text}"))

    def _read_method(self, name: str, made: ast.Call) -> None:
        """A method of what the model gave: a handle's `signal`."""
        if name == "signal":
            node = self._argument(0)
            if node is None:
                self._survey.doubt(self._call, self._scope, _COMPUTED.format(call="signal"))
            else:
                self._add(node, "signal", ("send:{}",))
            return
        self._read_texts(self._call)
        self._read_texts(made)

    def _child_or_task(self, kind: str, form: str) -> None:
        """The first argument is a definition, or its name as text."""
        if any(keyword.arg == "name" for keyword in self._call.keywords) and kind == "workflow":
            return  # named by the call
        node = self._argument(0)
        if node is None:
            self._survey.doubt(self._call, self._scope, f"the {kind} is computed")
            return
        found = literals(node, self._scope)
        if found is not None:
            for text in found:
                self._survey.names.update(form.format(one) for one in (text, text.rpartition("//")[2]))
            return
        for value in self._survey.world.values(node, self._scope):
            if not isinstance(value, Definition) or value.name is None:
                self._survey.doubt(node, self._scope, f"which {kind} this is cannot be found")
                return
            self._survey.names.add(form.format(value.name))

    # --- callables

    def _read_callables(self, name: str) -> None:
        call = self._call
        match name:
            case "step" | "side_effect":
                function = self._argument(1 if name == "step" else 0)
                if function is not None:
                    self.bodies.add(function)
            case "loop":
                body = self._argument(2) or next((k.value for k in call.keywords if k.arg == "body"), None)
                self._hand_over([] if body is None else [body])
            case "join" | "race" | "parallel":
                self._hand_over(call.args[:1])
            case "Async":
                self._hand_over([*call.args[:1], *(k.value for k in call.keywords if k.arg == "fn")])
            case "Update":
                self._hand_over([*call.args, *(keyword.value for keyword in call.keywords)])
            case "receive":
                self._hand_over([k.value for k in call.keywords if k.arg in ("updates", "signals")])
            case _:
                pass

    def _hand_over(self, nodes: list[ast.expr]) -> None:
        for node in nodes:
            self.branches.add(node)
            for part in self._parts(node):
                self._survey.check_callable(part, self._scope)

    def _parts(self, node: ast.expr) -> list[ast.expr]:
        for value in self._survey.world.values(node, self._scope):
            if isinstance(value, Collection) and isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.Set):
                return list(value.items)
        return [node]

    def _argument(self, position: int) -> ast.expr | None:
        """A positional argument; None where it is not there or comes out of `*args`."""
        args = self._call.args
        if len(args) <= position or any(isinstance(argument, ast.Starred) for argument in args[: position + 1]):
            return None
        return args[position]
