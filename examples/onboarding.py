"""A sequence of steps that says where it is: the shape most workflows have.

Each step's result is recorded, so after a crash the function goes on behind the last step that ended. The stage is
published and can be asked for at any time, also while no worker is alive.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenuto import publish_state, sleep, step, workflow


@dataclass(frozen=True, slots=True)
class Account:
    id: str
    email: str


accounts: dict[str, Account] = {}  # stands for a database
outbox: list[str] = []  # stands for a mail server


@step
async def create_account(email: str) -> Account:
    """An attempt that is repeated finds what the first one made: steps run at least once."""
    return accounts.setdefault(email, Account(f"account-{len(accounts) + 1}", email))


@step
async def send_mail(account: Account, subject: str) -> None:
    outbox.append(f"{subject} -> {account.email}")


@workflow
async def onboard(email: str) -> str:
    publish_state("creating the account")
    account = await create_account(email)

    publish_state("saying hello")
    await send_mail(account, "Welcome")

    publish_state("waiting to send tips")
    await sleep("3 days")
    await send_mail(account, "Three things to try")

    publish_state("done")
    return account.id


@onboard.query("stage")
def stage(published: str | None) -> str:
    return "not begun" if published is None else published
