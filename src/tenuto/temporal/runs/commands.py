"""The commands of a turn, each given to whoever knows what it means on Temporal."""

from __future__ import annotations

from typing import assert_never

from tenuto.kernel.commands import (
    CancelChild,
    CancelStep,
    CancelTask,
    CancelTimer,
    CloseHook,
    Command,
    EnqueueTask,
    RegisterHook,
    ReplyUpdate,
    RunRollback,
    RunStep,
    SendSignal,
    StartChild,
    StartTimer,
)
from tenuto.temporal.runs.answers import Answers
from tenuto.temporal.runs.performing import Performer

__all__ = ["begin"]


def begin(command: Command, performer: Performer, answers: Answers) -> None:
    """Ask Temporal for what a command means there."""
    match command:
        case EnqueueTask():
            performer.start_step(command)
        case RunStep():
            performer.run_side_effect(command)
        case RunRollback():
            performer.run_rollback(command)
        case CancelStep(location=location) | CancelTask(location=location):
            performer.cancel_work(location)
        case StartTimer():
            performer.timers.start(command)
        case CancelTimer(location=location):
            performer.timers.stop(location)
        case StartChild():
            performer.others.start_child(command)
        case CancelChild(location=location):
            performer.others.cancel_child(location)
        case SendSignal():
            performer.others.send(command)
        case RegisterHook():
            performer.register_hook(command)
        case CloseHook():
            pass  # the run knows which of its hooks are open
        case ReplyUpdate():
            answers.give(command)
        case _:
            assert_never(command)
