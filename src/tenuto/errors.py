"""Every public exception of Tenuto, each with its stable code.

The class says whose fault it is: `CodeFault` (workflow or step code), `CallerFault` (a call to us),
`EnvironmentFault` (store, network, disk), `EngineFault` (our bug). The text of an error answers three questions:
what happened, what the engine did, what to do next. Fields are attributes and survive being recorded: an
exception is stored as class, arguments, attributes and causes, and rebuilt without calling `__init__`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, final

__all__ = [
    "AmbiguousNameError",
    "AnyError",
    "CallerFault",
    "ChildCancelledError",
    "ChildError",
    "ChildFailedError",
    "ChildStartError",
    "ChildTerminatedError",
    "CodeFault",
    "CommitUnknownError",
    "ConfigError",
    "DecodingError",
    "DefinitionNotFoundError",
    "DirectiveError",
    "DuplicateIdError",
    "EncodingError",
    "EngineFault",
    "EnvironmentFault",
    "Evicted",
    "FatalError",
    "ForeignCallError",
    "HandlerReturnError",
    "HistoryDivergedError",
    "HookNotFoundError",
    "HookTakenError",
    "InternalError",
    "InvalidNameError",
    "JoinError",
    "LeaseLostError",
    "LimitError",
    "NestingError",
    "NondeterminismError",
    "NotCompiledError",
    "NotInWorkflowError",
    "QueryFailedError",
    "QueryNotFoundError",
    "RaceError",
    "ReadOnlyError",
    "ReceiveConfigError",
    "RecordError",
    "RecoverError",
    "Reject",
    "RemoteError",
    "RetryableError",
    "RewindError",
    "RollbackError",
    "RollbackUnavailableError",
    "RunCancelledError",
    "RunClosedError",
    "RunFailedError",
    "RunIdConflictError",
    "RunNotFoundError",
    "RunStateError",
    "RunTerminatedError",
    "RunawayTurnError",
    "SideEffectError",
    "StepExhaustedError",
    "StepFailedError",
    "StepOutcomeUnknownError",
    "StepTimeoutError",
    "StoreRefusedError",
    "StoreTooNewError",
    "StoreUnavailableError",
    "StuckError",
    "TenutoError",
    "TwfError",
    "UnsupportedError",
    "UpdateFailedError",
    "UpdateRejectedError",
]


NEXT: Final = "\n  next      "  # what stands in front of what to do


class TenutoError(Exception):
    """The base of every exception Tenuto raises; never raised itself."""

    code: ClassVar[str] = "TN000"
    engine: ClassVar[str | None] = None  # what the engine did
    fix: str | None = None  # what to do next

    def __str__(self) -> str:
        happened = super().__str__()
        if self.engine is None and self.fix is None:
            return happened
        lines = [f"{self.code} {happened}"]
        if self.engine is not None:
            lines.append(f"  engine    {self.engine}")
        if self.fix is not None:
            lines.append(f"{NEXT[1:]}{self.fix}")
        return "\n".join(lines)


class CodeFault(TenutoError):
    """Workflow or step code did it."""


class CallerFault(TenutoError):
    """A call to Tenuto was wrong."""


class EnvironmentFault(TenutoError):
    """Store, network, disk or deployment."""


class EngineFault(TenutoError):
    """A bug of ours."""


# --- control


@final
class Evicted(BaseException):
    """This run left memory and will be replayed later. Let it pass: catching it in workflow code hides it."""


# --- code faults, TN1xx


class NotInWorkflowError(CodeFault):
    """A durable call was made where no run is: outside a workflow, or in the body of a step."""

    code = "TN101"
    engine = "did nothing"
    fix = "call it from a workflow; from outside use app.start(...), or .fn(...) for the plain function"


class NestingError(CodeFault):
    """A durable call was made where its place forbids it.

    Next: do as the text says: another place, or a run of its own by `spawn`.
    """

    code = "TN102"
    engine = "raised it at the call; nothing was recorded"


class ReadOnlyError(CodeFault):
    """A durable call was made in a validator or query, which may only read."""

    code = "TN103"
    engine = "raised it at the call; nothing was recorded"
    fix = "use only the state the function was given"


class _DivergenceError(CodeFault):
    location: str
    recorded: str
    asked: str
    fix_text: str

    def __init__(self, location: str, recorded: str, asked: str, fix: str = "", *, raised: str = "") -> None:
        place = location or "(root)"
        if raised:  # class, text, file and line
            happened = f"the code raised {raised} before it came to {place}, where history has {recorded}"
            asked = f"nothing: it raised {raised}"
        else:
            happened = f"at {place}: history has {recorded}; the code asked for {asked}"
        super().__init__(happened)
        self.location = location
        self.recorded = recorded
        self.asked = asked
        self.fix_text = fix

    def __str__(self) -> str:
        said = super().__str__()
        if not self.fix_text:
            return said
        return f"{said.partition(NEXT)[0]}{NEXT}{self.fix_text}"


class HistoryDivergedError(_DivergenceError):
    """Changed code asks for something else than the history has.

    Next: put back what is gone, or use `removed` or `patched`, as the text says; the run goes on after the deploy.
    """

    code = "TN104"
    engine = "wrote nothing, compensated nothing, parked the run"


class NondeterminismError(_DivergenceError):
    """Unchanged code asked for something else than it did before."""

    code = "TN105"
    engine = "wrote nothing, compensated nothing, parked the run"
    fix = (
        "take clock, chance, I/O and set order out of the workflow's decisions; behind a loop, use what it returns, "
        "not what its iterations left in variables: those that were committed do not run again"
    )


class ForeignCallError(CodeFault, RuntimeError):
    """Workflow code touched the outside: I/O, a thread, another loop."""

    code = "TN106"
    engine = "raised it at the call; nothing was recorded"

    def __init__(self, call: str) -> None:
        super().__init__(f"{call} is not available in workflow code: it would not be the same on replay")
        self.call = call

    fix = "put it in a step"


class ReceiveConfigError(CodeFault):
    """`receive` was configured in a way that cannot work."""

    code = "TN107"
    engine = "raised it at the call; nothing was recorded"
    fix = "correct the call"


class HandlerReturnError(CodeFault):
    """A handler, branch, closure or run returned what it may not.

    Engine: failed the update, branch, closure or run it came from; a signal's is logged.
    Next: return what that place allows.
    """

    code = "TN108"


class RunawayTurnError(CodeFault):
    """A turn did not come to rest."""

    code = "TN109"
    engine = "wrote nothing and parked the run"
    fix = "await a durable operation inside that loop"


class StuckError(CodeFault):
    """Several workers were lost while they had this run and nothing else."""

    code = "TN110"
    engine = "parked the run"
    fix = "find what kills the process, then deploy or resume"


class FatalError(CodeFault):
    """Raised by a step: do not retry.

    Engine: failed the step at once, with kind `fatal`.
    Next: nothing; the workflow sees `StepFailedError` with this as its cause.
    """

    code = "TN111"


class RetryableError(CodeFault):
    """Raised by a step: try again, after the given time if there is one.

    Engine: counted the attempt and tries again then.
    Next: nothing.
    """

    code = "TN112"

    def __init__(self, message: str = "", *, after: Any = None) -> None:
        super().__init__(message)
        self.after = after


class RollbackError(CodeFault):
    """Raised by a step like `FatalError`; raised by a workflow to end it and undo its steps.

    Engine: of a step: failed it at once. Out of a workflow: ended the run and ran its rollback handlers.
    Next: nothing.
    """

    code = "TN113"


class StepFailedError(CodeFault):
    """A step failed for good; its own error is the cause.

    Engine: recorded it; it is the same on every replay.
    Next: look at the cause; `kind` is `fatal`, `encode` or `cancelled`.
    """

    code = "TN114"
    kind: str

    def __init__(self, name: str, location: str, attempts: int, kind: str) -> None:
        super().__init__(self._happened(name, location, attempts, kind))
        self.name = name
        self.location = location
        self.attempts = attempts
        self.kind = kind

    @staticmethod
    def _happened(name: str, location: str, attempts: int, kind: str) -> str:
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        return f"step {name!r} at {location} failed ({kind}) after {tries}"


class StepExhaustedError(StepFailedError):
    """The last allowed attempt of a step failed.

    Engine: recorded it; it is the same on every replay.
    Next: repair what failed and `recover` the run, or allow more attempts.
    """

    code = "TN115"


class StepTimeoutError(StepExhaustedError):
    """The last allowed attempt of a step ran out of time or heartbeats.

    Engine: cancelled every attempt at its limit and recorded the failure.
    Next: give the step a longer `timeout`, or make it shorter.
    """

    code = "TN116"


class StepOutcomeUnknownError(StepFailedError):
    """The worker of a step's only or last attempt was lost: whether its effect happened is unknown."""

    code = "TN117"
    engine = "recorded it and did not run the step again"
    fix = "find out by the step's idempotency key whether the effect happened"


class RollbackUnavailableError(CodeFault):
    """The rollback handler of a trimmed iteration is a closure that no longer exists."""

    code = "TN119"
    engine = "recorded it beside the original error; the other handlers run"
    fix = "make the handler a module-level function or a step"


class SideEffectError(CodeFault):
    """The closure of `side_effect` raised, or gave a value that cannot be stored.

    Engine: recorded it; it is the same on every replay.
    Next: use a step.
    """

    code = "TN120"


class _BranchesError(CodeFault):
    errors: dict[str, Exception]

    def __init__(self, errors: Mapping[str, Exception]) -> None:
        named = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in errors.items())
        super().__init__(f"{len(errors)} failed: {named}")
        self.errors = dict(errors)


class JoinError(_BranchesError):
    """Branches of a `join` failed: `errors` by branch name.

    Engine: recorded each failure; the error is the same on every replay.
    Next: catch it, or repair the branches.
    """

    code = "TN121"


class RaceError(_BranchesError):
    """Every branch of a `race` failed: `errors` by branch name.

    Engine: recorded each failure; the error is the same on every replay.
    Next: catch it, or repair the branches.
    """

    code = "TN122"


class AnyError(_BranchesError):
    """Every item of a `Task.any` failed: `errors` by item id.

    Engine: recorded each failure; the error is the same on every replay.
    Next: catch it, or repair the items.
    """

    code = "TN123"


class ChildError(CodeFault):
    """How a child run ended, its error as the cause; never raised itself."""


class ChildFailedError(ChildError):
    """A child run failed.

    Engine: recorded it and raises it where the child is awaited.
    Next: look at the cause.
    """

    code = "TN124"


class ChildCancelledError(ChildError):
    """A child run was cancelled.

    Engine: recorded it and raises it where the child is awaited.
    Next: nothing, where it was meant.
    """

    code = "TN125"


class ChildTerminatedError(ChildError):
    """A child run was terminated.

    Engine: recorded it and raises it where the child is awaited.
    Next: nothing, where it was meant.
    """

    code = "TN126"


class ChildStartError(ChildError):
    """A child could not be started: its id belongs to another run.

    Engine: started nothing and recorded it.
    """

    code = "TN127"
    fix = 'choose another id, or follow that run with if_exists="attach"'


class HookTakenError(CodeFault):
    """The token of a hook belongs to another open run.

    Engine: registered nothing and recorded it.
    """

    code = "TN128"
    fix = "choose another token"


class EncodingError(CodeFault):
    """A value is of a type that cannot be stored.

    Engine: stored nothing; a step whose result it is fails with kind `encode`.
    """

    code = "TN129"
    fix = "use a type listed in the reference, or register the class with @serializable"

    def __init__(self, path: str, type_name: str, why: str = "", fix: str = "") -> None:
        super().__init__(f"{path}: {why or f'a value of type {type_name} cannot be stored'}")
        if fix:
            self.fix = fix
        self.path = path
        self.type_name = type_name


class RemoteError(CodeFault):
    """Stands for a recorded exception whose class is not loaded here.

    Engine: kept the name of the class and its message.
    Next: import the module of the class where it is read.
    """

    code = "TN130"

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(f"{type_name}: {message}")
        self.type_name = type_name
        self.message = message


class TwfError(CodeFault):
    """A TWF run failed, or cannot go on; `code` is the instance's own.

    Engine: TWF5xx: failed the run. TWF6xx: parked it.
    Next: see the reference of TWF for the code.
    """

    def __init__(
        self,
        code: str,
        type: str,  # noqa: A002  # the name TWF programs see
        message: str,
        *,
        details: Any = None,
        source: str | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # the only error, with DirectiveError, whose code belongs to the instance
        self.type = type
        self.message = message
        self.details = details
        self.source = source
        self.file = file
        self.line = line


class DirectiveError(CodeFault, SyntaxError):
    """A directive or decorator is wrong; the import fails and nothing is registered. `findings` are all of the file.

    Engine: registered nothing of that file.
    Next: see the reference of directives for the code.
    """

    def __init__(self, code: str, message: str, findings: Sequence[object] = ()) -> None:
        super().__init__(message if message.startswith(code) else f"{code} {message}")
        self.code = code  # type: ignore[misc]  # see TwfError
        self.findings = tuple(findings)


class NotCompiledError(CodeFault):
    """A function carries a directive that no import hook has compiled.

    Engine: started nothing.
    """

    code = "DIR501"
    fix = "install the import hook before importing the module, or run it with `tenuto run`"

    def __init__(self, message: str = "", fix: str | None = None) -> None:
        super().__init__(message)
        if fix is not None:
            self.fix = fix  # what helps depends on where the function was written


class DuplicateIdError(CodeFault):
    """Two definitions have one id."""

    code = "DIR502"
    engine = "kept the first definition"
    fix = "rename one of them, or give it name="


# --- caller faults, TN2xx


class RunFailedError(CallerFault):
    """The run failed; its error is the cause.

    Engine: keeps the run and its history.
    Next: look at the cause; `recover` goes on from the failed step, `rewind` from an earlier one.
    """

    code = "TN201"


class RunCancelledError(CallerFault):
    """The run was cancelled.

    Engine: keeps the run and its history.
    Next: start another run where it is needed.
    """

    code = "TN202"


class RunTerminatedError(CallerFault):
    """The run was terminated.

    Engine: keeps the run and its history; none of its code ran after the end.
    Next: start another run where it is needed.
    """

    code = "TN203"


class RunNotFoundError(CallerFault):
    """There is no run with this id."""

    code = "TN204"
    engine = "stored nothing"
    fix = "check the id"


class RunClosedError(CallerFault):
    """The run has ended.

    Next: nothing, where the end was expected; else check the id.
    """

    code = "TN205"
    engine = "stored nothing"


class RunIdConflictError(CallerFault):
    """The id belongs to another start."""

    code = "TN206"
    engine = "started nothing"
    fix = "choose another id, or say if_exists="


class RunStateError(CallerFault):
    """This verb is refused in the run's present status.

    Next: see what `explain` says about the run.
    """

    code = "TN207"
    engine = "changed nothing"


class RecoverError(RunStateError):
    """The run has not failed, or some of its steps have been undone."""

    code = "TN208"
    fix = "start a new run"


class RewindError(RunStateError):
    """The run cannot go back to that place."""

    code = "TN209"
    fix = "choose a later target; drop_updates=True where accepted updates are in the way"


class UpdateRejectedError(CallerFault):
    """The run did not accept an update.

    Engine: left the history as it was; `why` is `not_accepting`, `validator`, `cancelled` or `closed`.
    Next: send it with `retry_for`, or with other arguments.
    """

    code = "TN210"

    def __init__(self, why: str, reason: str | None = None, name: str | None = None) -> None:
        super().__init__(f"{_update(name)} rejected ({why}): {reason or _REJECTED.get(why, 'the run refused it')}")
        self.why = why
        self.reason = reason


class UpdateFailedError(CallerFault):
    """An accepted update failed; the error is the cause.

    Engine: recorded it as the update's answer; `why` is `handler`, `cancelled`, `closed`, `rewound` or `stale`.
    Next: look at the cause.
    """

    code = "TN211"

    def __init__(self, why: str, reason: str | None = None, name: str | None = None) -> None:
        super().__init__(f"{_update(name)} failed ({why}): {reason or _FAILED.get(why, 'look at the cause')}")
        self.why = why


def _update(name: str | None) -> str:
    return "update" if name is None else f"update {name!r}"


_REJECTED = {
    "not_accepting": "no receive() of the run takes it now; retry_for= sends it again until one does",
    "validator": "its validator refused the arguments",
    "cancelled": "the run is being cancelled",
    "closed": "the run has ended",
}
_FAILED = {
    "handler": "its handler raised; the error is the cause",
    "cancelled": "it was accepted, then the run was cancelled",
    "closed": "it was accepted, then the run ended before it was answered",
    "rewound": "the run was taken back to before it was accepted; send it under another id",
    "stale": "its validator refuses it by now",
}


class QueryNotFoundError(CallerFault):
    """The workflow has no query of this name.

    Engine: left the run alone.
    Next: use one of the names that the text lists.
    """

    code = "TN212"


class QueryFailedError(CallerFault):
    """A query's function raised; its error is the cause.

    Engine: left the run alone.
    Next: look at the cause.
    """

    code = "TN213"


class Reject(CallerFault):
    """Raised by a validator to refuse an update.

    Engine: refused the update, with `why` = `validator`.
    Next: nothing; the sender gets `UpdateRejectedError`.
    """

    code = "TN214"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DefinitionNotFoundError(CallerFault):
    """A text names no definition, or no schedule."""

    code = "TN215"
    engine = "started nothing"
    fix = "import its module in this process, or give its id"

    def __init__(self, message: str = "", fix: str | None = None) -> None:
        super().__init__(message)
        if fix is not None:
            self.fix = fix


class AmbiguousNameError(CallerFault):
    """A short name names several definitions."""

    code = "TN216"
    engine = "started nothing"
    fix = "use one of these ids"


class InvalidNameError(CallerFault, ValueError):
    """A name, id or token is empty, not UTF-8, or over 255 bytes."""

    code = "TN217"
    engine = "raised it at the call; nothing was recorded"
    fix = "use a text of 1 to 255 UTF-8 bytes"


class LimitError(CallerFault):
    """A limit was exceeded.

    Engine: stored nothing; a step whose result it is fails with kind `encode`, a history over its limit parks the
    run.
    """

    code = "TN218"
    fix = "hand over less, or raise the limit: Tenuto(limits=Limits(…))"

    def __init__(self, what: str, limit: int, size: int, fix: str = "") -> None:
        super().__init__(f"{what}: {size} is over the limit of {limit}")
        if fix:
            self.fix = fix
        self.what = what
        self.limit = limit
        self.size = size


class HookNotFoundError(CallerFault):
    """No open hook has this token.

    Next: check the token; the hook may be closed.
    """

    code = "TN219"
    engine = "stored nothing"


class UnsupportedError(CallerFault):
    """This engine cannot do that.

    Engine: raised it at the call; nothing was recorded.
    Next: do as the text says.
    """

    code = "TN220"


class ConfigError(CallerFault):
    """A URL or setting is wrong."""

    code = "TN221"
    engine = "did not start"
    fix = "correct it"


# --- environment faults, TN3xx


class StoreUnavailableError(EnvironmentFault):
    """The store is unreachable, locked, read-only or full."""

    code = "TN301"
    engine = "did not carry out the call; runs wait, none fails"
    fix = "free or restart the store; work goes on by itself"


class CommitUnknownError(EnvironmentFault):
    """The connection was lost during a commit, and reading again failed too."""

    code = "TN302"
    engine = "does not know whether it was done"
    fix = "repeat the call with the same id"


class StoreRefusedError(EnvironmentFault):
    """The store cannot keep what it would promise here.

    Next: do as the text says.
    """

    code = "TN303"
    engine = "did not open the store"


class StoreTooNewError(EnvironmentFault):
    """The schema of the store needs a newer release."""

    code = "TN304"
    engine = "did not open the store"
    fix = "upgrade tenuto"


class LeaseLostError(EnvironmentFault):
    """Another worker has the run.

    Next: nothing.
    """

    code = "TN305"
    engine = "refused the whole commit; the worker starts over"


class RecordError(EnvironmentFault):
    """A stored record is damaged or of a version this release does not know."""

    code = "TN306"
    engine = "wrote nothing and parked the run"
    fix = "upgrade tenuto, or restore the store"


class DecodingError(EnvironmentFault):
    """Stored bytes cannot be read: a class that is not loaded, a wrong key, damage.

    Next: import the module of the class in the worker, or give the key, as the text says.
    """

    code = "TN307"
    engine = "read nothing; a run that needs the value is parked"

    def __init__(self, path: str, type_name: str, why: str, fix: str = "restore the value") -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.type_name = type_name
        self.why = why
        self.fix_text = fix

    def __str__(self) -> str:
        return f"{super().__str__()}\n  next      {self.fix_text}"


# --- engine faults, TN9xx


class InternalError(EngineFault):
    """A bug of ours."""

    code = "TN901"
    engine = "wrote nothing and parked the run"
    fix = "report it, with this text"
