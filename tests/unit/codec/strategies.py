"""Random records, for the property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from tenuto.kernel.records import (
    Branch,
    BranchStatus,
    Cancel,
    Checkpoint,
    Child,
    ChildMode,
    Counters,
    Entry,
    Join,
    JoinMode,
    Loop,
    Mail,
    MailKind,
    Message,
    Metadata,
    Patch,
    PatchMark,
    Race,
    Removed,
    Rollback,
    SideEffect,
    Sleep,
    Step,
    StepStatus,
    Taken,
    Update,
    UpdateStatus,
)

U8 = st.integers(0, 15)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
DATA = st.binary(max_size=5) | st.integers(120, 140).map(bytes) | st.just(bytes(300))
TEXT = st.text(st.characters(codec="utf-8"), max_size=5) | st.just("x" * 200)

optional_data = st.none() | DATA
optional_text = st.none() | TEXT
optional_u64 = st.none() | U64

branches = st.lists(st.builds(Branch, TEXT, st.sampled_from(BranchStatus)), max_size=3).map(tuple)
taken = st.builds(Taken, TEXT, TEXT, DATA, U64)
kinds = st.one_of(
    st.builds(Step, st.sampled_from(StepStatus), optional_data, optional_data, optional_text, optional_data),
    st.builds(Step, st.just(StepStatus.COMPLETED), DATA),
    st.builds(Step, st.just(StepStatus.COMPLETED), DATA, st.none(), st.none(), DATA),
    st.builds(Loop, U32, DATA, U32, U64, optional_data),
    st.builds(Sleep, U64),
    st.builds(Message, st.lists(TEXT, max_size=3).map(tuple), optional_u64, st.none() | taken),
    st.builds(Join, st.sampled_from(JoinMode), branches),
    st.builds(Race, optional_text, branches),
    st.builds(Removed, TEXT),
    st.builds(SideEffect, optional_data, optional_data),
    st.builds(Patch, st.sampled_from(PatchMark)),
    st.builds(Child, st.sampled_from(ChildMode), U64, TEXT, TEXT, optional_data, optional_data),
    st.builds(Checkpoint),
)
entries = st.builds(Entry, U64, U64, U64, U8, kinds)
rollbacks = st.builds(Rollback, U32, optional_u64, optional_u64, optional_data)
metadata = st.builds(Metadata, U32, U64, optional_u64, optional_data, st.none() | rollbacks)
mail = st.builds(Mail, st.sampled_from(MailKind), TEXT, optional_text, optional_data, optional_data, U32, U64)
updates = st.builds(Update, U64, U64, TEXT, DATA, st.sampled_from(UpdateStatus), optional_data, optional_data)
cancels = st.builds(Cancel, U64, U64, optional_text, optional_u64)
counters = st.builds(Counters, U64, U32, U32, U32, st.none() | cancels)
