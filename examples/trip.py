"""A saga: what was booked is cancelled, last first, when the trip cannot be made after all.

Each step brings the handler that undoes it; the handler gets what the step returned. They run when the run fails or is
cancelled, each recorded and retried like a step, and go on after a crash where they were. Behind a
`rollback_checkpoint` nothing before it is undone any more: a paid trip stays booked although the mail bounced.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenuto import FatalError, rollback_checkpoint, step, workflow

diary: list[str] = []  # what the outside was asked to do, in order
sold_out: set[str] = set()
budget = {"Ada": 100_000}  # in cents


@dataclass(frozen=True, slots=True)
class Booking:
    what: str
    reference: str
    cents: int


async def cancel(booking: Booking) -> None:
    """It may run twice: cancelling what is cancelled must be harmless."""
    diary.append(f"cancel {booking.reference}")


@step(rollback=cancel)
async def book(what: str, place: str, cents: int) -> Booking:
    if what in sold_out:
        raise FatalError(f"no {what} left in {place}")
    diary.append(f"book {what} {place}")
    return Booking(what, f"{what} {place}", cents)


async def give_back(paid: tuple[str, int]) -> None:
    name, cents = paid
    budget[name] += cents
    diary.append(f"give back {cents}")


@step(rollback=give_back)
async def pay(name: str, cents: int) -> tuple[str, int]:
    if budget[name] < cents:
        raise FatalError(f"{name} cannot pay {cents / 100:.2f}")
    budget[name] -= cents
    diary.append(f"pay {cents}")
    return name, cents


@step
async def send_itinerary(name: str, bookings: list[Booking]) -> None:
    if "mail" in sold_out:
        raise FatalError("the mailbox is full")
    diary.append(f"mail {len(bookings)} bookings to {name}")


@workflow
async def travel(name: str, place: str) -> list[str]:
    """The references of what was booked."""
    bookings = [
        await book("flight", place, 30_000),
        await book("hotel", place, 40_000),
        await book("car", place, 10_000),
    ]
    await pay(name, sum(booking.cents for booking in bookings))
    rollback_checkpoint("paid")

    await send_itinerary(name, bookings)
    return [booking.reference for booking in bookings]
