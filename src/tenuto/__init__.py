"""Durable execution for Python: what workflow code and its callers import."""

from tenuto.app import EachRun, RunHandle, TaskHandle, Tenuto
from tenuto.codec.sealing import Compression, Encryption
from tenuto.errors import FatalError, Reject, RetryableError, RollbackError
from tenuto.host.limits import Limits
from tenuto.model.children import ChildHandle, ChildOptions, detach, spawn
from tenuto.model.concurrency import Branch, Failed, Winner, join, parallel, race, shield
from tenuto.model.decorators import StepDecorator, step, workflow
from tenuto.model.definitions import Bound, ContinueAsNew, Step, Workflow
from tenuto.model.durations import Duration
from tenuto.model.handles import Handle
from tenuto.model.hooks import Hook, hook
from tenuto.model.info import RunInfo, run_info
from tenuto.model.loops import Break, Continue, loop
from tenuto.model.marking import (
    as_step,
    as_workflow,
    deserializer,
    serializable,
    serializer,
    step_options,
    workflow_options,
)
from tenuto.model.messages import signal, wait_for_signal
from tenuto.model.options import InlineOptions, QueueOptions, Retry, StepOptions
from tenuto.model.receive import partial_state, receive
from tenuto.model.registry import Registry
from tenuto.model.replies import (
    Async,
    NoReply,
    Received,
    Reply,
    SignalHandler,
    SignalResult,
    Stop,
    Update,
    UpdateHandler,
    UpdateResult,
)
from tenuto.model.side_effects import side_effect
from tenuto.model.state import publish_state, update_state
from tenuto.model.steps import StepInfo, heartbeat, step_info
from tenuto.model.tasks import Finished, Task, Won
from tenuto.model.timers import now, random, sleep, sleep_until, uuid4
from tenuto.model.versioning import Kind, deprecate_patch, patched, removed, rollback_checkpoint
from tenuto.system.lines import escape_log_lines

__all__ = [
    "Async",
    "Bound",
    "Branch",
    "Break",
    "ChildHandle",
    "ChildOptions",
    "Compression",
    "Continue",
    "ContinueAsNew",
    "Duration",
    "EachRun",
    "Encryption",
    "Failed",
    "FatalError",
    "Finished",
    "Handle",
    "Hook",
    "InlineOptions",
    "Kind",
    "Limits",
    "NoReply",
    "QueueOptions",
    "Received",
    "Registry",
    "Reject",
    "Reply",
    "Retry",
    "RetryableError",
    "RollbackError",
    "RunHandle",
    "RunInfo",
    "SignalHandler",
    "SignalResult",
    "Step",
    "StepDecorator",
    "StepInfo",
    "StepOptions",
    "Stop",
    "Task",
    "TaskHandle",
    "Tenuto",
    "Update",
    "UpdateHandler",
    "UpdateResult",
    "Winner",
    "Won",
    "Workflow",
    "as_step",
    "as_workflow",
    "deprecate_patch",
    "deserializer",
    "detach",
    "heartbeat",
    "hook",
    "join",
    "loop",
    "now",
    "parallel",
    "partial_state",
    "patched",
    "publish_state",
    "race",
    "random",
    "receive",
    "removed",
    "rollback_checkpoint",
    "run_info",
    "serializable",
    "serializer",
    "shield",
    "side_effect",
    "signal",
    "sleep",
    "sleep_until",
    "spawn",
    "step",
    "step_info",
    "step_options",
    "update_state",
    "uuid4",
    "wait_for_signal",
    "workflow",
    "workflow_options",
]

escape_log_lines()
