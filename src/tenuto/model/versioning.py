"""Changing code while runs are open, and points of no return."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from tenuto.kernel.location import check_name
from tenuto.kernel.operations import CheckpointMark, RemovedMark
from tenuto.model.place import current

__all__ = ["Kind", "deprecate_patch", "patched", "removed", "rollback_checkpoint"]

Kind: TypeAlias = Literal[
    "step", "loop", "sleep", "message", "join", "parallel", "race", "receive", "side_effect", "child", "checkpoint"
]
"""What an entry of the history is the record of; `removed` needs it."""
_KINDS: Final[tuple[str, ...]] = get_args(Kind)


def patched(patch_id: str, /) -> bool:
    """Whether this run takes the new way: decided once per run, and recorded.

    `False` for a run that had already gone past this place when the patch came, `True` for any other.

        if patched("charge-in-cents"):
            await charge_cents(order)
        else:
            await charge(order)
    """
    return current("patched()").port.patch(check_name(patch_id))


def deprecate_patch(patch_id: str, /) -> None:
    """Stands where `patched` stood once no run takes the old way; may go when no run with the patch is left."""
    current("deprecate_patch()").port.patch(check_name(patch_id), deprecate=True)


def removed(name: str, kind: Kind, /) -> None:
    """Stands where an operation stood, so that runs that have recorded it go on.

    removed("send_sms", "step")
    """
    place = current("removed()")
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is no kind of operation; one of {', '.join(_KINDS)}")
    place.port.observe(RemovedMark(check_name(name), kind))


def rollback_checkpoint(name: str, /) -> None:
    """A point of no return: steps of this scope before it are not undone any more when the run fails.

    rollback_checkpoint("shipped")
    """
    current("rollback_checkpoint()").port.observe(CheckpointMark(check_name(name)))
