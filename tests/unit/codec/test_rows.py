"""Rows of a run: batches to bytes and back (K003, K004, K008, K009, K013 as far as bytes go)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.codec import keys, records
from tenuto.codec.rows import EncodedBatch, RunEncoder, decode_rows, entry_id, mail_key, update_key
from tenuto.errors import RecordError
from tenuto.kernel import location as places
from tenuto.kernel.batch import Batch, Trim
from tenuto.kernel.location import Location
from tenuto.kernel.records import (
    Checkpoint,
    Counters,
    Entry,
    Mail,
    MailKind,
    Metadata,
    Rows,
    Step,
    StepStatus,
    Update,
    UpdateStatus,
)

from . import strategies

CREATED = Batch(state="pending", version="abc", input=b"\x82\x80\xa0", counters=Counters(1700000000000))
SIGNAL = Mail(MailKind.SIGNAL, "go", None, b"\xf6", None, 0, 5)


def step(seq: int) -> Entry:
    return Entry(seq, 10, 9, 0, Step(StepStatus.COMPLETED, b"\x01"))


class Store:
    """Applies batches as every store does."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    def apply(self, batch: EncodedBatch) -> None:
        for start, end in batch.range_deletes:
            self.rows = {key: value for key, value in self.rows.items() if not start <= key < end}
        for key in batch.deletes:
            self.rows.pop(key, None)
        self.rows.update(batch.puts)

    def load(self) -> tuple[Rows, RunEncoder]:
        return decode_rows("r1", sorted(self.rows.items()))


@pytest.fixture
def store() -> Store:
    made = Store()
    made.apply(RunEncoder().encode(CREATED))
    return made


def test_a_new_run_has_its_four_rows(store: Store) -> None:
    assert {key.hex(): value.hex() for key, value in store.rows.items()} == {
        "15041501": b"pending".hex(),
        "15041504": b"abc".hex(),
        "15041505": "8280a0",
        "15041507": "01000068e5cf8b010000000000000000000001000000" + "00",
    }
    rows, _ = store.load()
    assert rows == Rows("r1", "pending", "abc", b"\x82\x80\xa0", Counters(1700000000000))


def test_a_plain_step_is_one_row_after_its_name_is_known(store: Store) -> None:
    encoder = RunEncoder()
    first = encoder.encode(Batch(entries=((("charge",), step(1)),)))
    second = encoder.encode(Batch(entries=(((places.use("charge", 1),), step(2)),)))
    assert [key.hex() for key, _ in first.puts] == ["150114", "150214"]
    assert first.puts[0][1].hex() == "06636861726765"
    assert [key.hex() for key, _ in second.puts] == ["1502051415011400"]


def test_k013_a_name_gets_its_index_when_its_first_row_is_written_and_indices_are_dense(store: Store) -> None:
    _, encoder = store.load()
    store.apply(encoder.encode(Batch(entries=((("q", "fast"), step(1)),))))
    assert keys.pack((1, 1)) in store.rows
    assert keys.pack((1, 2)) not in store.rows
    rows, again = store.load()
    assert rows.history == ((("q", "fast"), step(1)),)
    encoded = again.encode(Batch(entries=((("p", "slow"), step(2)), (("q", "last"), step(3)))))
    assert [keys.unpack(key) for key, _ in encoded.puts] == [(1, 2), (1, 3), (2, 2, 3), (1, 4), (2, 0, 4)]


def test_deletes_of_what_was_never_written_are_left_out_and_name_nothing(store: Store) -> None:
    _, encoder = store.load()
    encoded = encoder.encode(
        Batch(deleted_entries=(("never",),), deleted_metadata=(("never",),), trims=(Trim(("no",), "no", 0, 9),))
    )
    assert encoded == EncodedBatch((), (), ())


def test_a_deleted_entry_is_gone(store: Store) -> None:
    _, encoder = store.load()
    store.apply(encoder.encode(Batch(entries=((("a",), step(1)), (("a", "b"), step(2))))))
    store.apply(encoder.encode(Batch(deleted_entries=(("a",),))))
    assert store.load()[0].history == ((("a", "b"), step(2)),)


def test_k004_a_trim_deletes_iterations_and_dispatches_in_one_range(store: Store) -> None:
    _, encoder = store.load()
    kept: list[Location] = [
        ("poll", ("poll", 10), "s"),
        ("poll", ("poll", 300)),
        (("poll", 1, 0), ("poll", 3), "s"),
        ("s",),
    ]
    gone: list[Location] = [
        ("poll", ("poll", 0), "s"),
        ("poll", ("poll", 9)),
        ("poll", ("poll", 9, 3), "s"),
        ("poll", ("poll", 0, 3)),
    ]
    store.apply(encoder.encode(Batch(entries=tuple((place, step(1)) for place in [*kept, *gone]))))
    trim = encoder.encode(Batch(trims=(Trim(("poll",), "poll", 0, 10),)))
    ((start, end),) = trim.range_deletes
    poll, n = keys.pack((2, 0)), keys.pack
    assert (start, end) == (poll + n(((0, 0),)), poll + n(((0, 10),)))
    store.apply(trim)
    assert {place for place, _ in store.load()[0].history} == set(kept)


def test_the_range_of_iterations_is_that_of_the_specification() -> None:
    encoder = RunEncoder(["a", "b", "loop"])
    encoded = encoder.encode(Batch(trims=(Trim(("loop",), "loop", 0, 10),)))
    assert [(start.hex(), end.hex()) for start, end in encoded.range_deletes] == [
        ("150215020515021400", "15021502051502150a00")
    ]


def test_k009_a_put_inside_a_range_of_the_same_batch_stays(store: Store) -> None:
    _, encoder = store.load()
    store.apply(encoder.encode(Batch(entries=((("l", ("l", 1)), step(1)),))))
    store.apply(encoder.encode(Batch(trims=(Trim(("l",), "l", 0, 5),), entries=((("l", ("l", 2)), step(2)),))))
    assert store.load()[0].history == ((("l", ("l", 2)), step(2)),)


def test_clearing_a_generation_forgets_its_names(store: Store) -> None:
    _, encoder = store.load()
    store.apply(encoder.encode(Batch(entries=((("a",), step(1)), (("b",), step(2))))))
    store.apply(encoder.encode(Batch(cleared=(1, 2, 5), entries=((("b",), step(1)),))))
    rows, _ = store.load()
    assert rows.history == ((("b",), step(1)),)
    assert store.rows[keys.pack((1, 0))] == records.encode_name("b")


def test_metadata_is_stored_under_the_id_of_its_entry_and_found_by_its_location(store: Store) -> None:
    assert entry_id(bytes.fromhex("150214")) == "311c8e01a356efdbdbdde5680858bbb1"
    _, encoder = store.load()
    batch = Batch(entries=((("a",), step(1)), (("b",), step(2))), metadata=((("b",), Metadata(2, 7)),))
    store.apply(encoder.encode(batch))
    assert store.load()[0].metadata == {("b",): Metadata(2, 7)}
    store.apply(encoder.encode(Batch(deleted_metadata=(("b",),))))
    assert store.load()[0].metadata == {}
    key = keys.pack((5, "311c8e01a356efdbdbdde5680858bbb1"))
    encoded = RunEncoder(["x"]).encode(Batch(metadata=((("x",), Metadata(2, 7)),)))
    assert encoded.puts[0][0] == key


def test_the_keys_of_mail_and_updates_are_those_of_the_specification() -> None:
    assert mail_key(42).hex() == "1503023030303030303030303030303030326100"
    assert update_key("u-1").hex() == "150602752d3100"


def test_every_row_of_a_run_comes_back(store: Store) -> None:
    _, encoder = store.load()
    update = Update(3, 4, "add", b"\x80", UpdateStatus.ACCEPTED)
    counters = Counters(1, 2, 3)
    batch = Batch(
        mail=((2, SIGNAL), (300, SIGNAL)),
        updates=(("u-1", update),),
        state="failed",
        output=b"\x01",
        error=b"\x02",
        version="def",
        published=b"\x03",
        counters=counters,
    )
    store.apply(encoder.encode(batch))
    rows, _ = store.load()
    assert rows == Rows(
        "r1",
        "failed",
        "def",
        b"\x82\x80\xa0",
        counters,
        mail=((2, SIGNAL), (300, SIGNAL)),
        updates={"u-1": update},
        output=b"\x01",
        error=b"\x02",
        published=b"\x03",
    )
    store.apply(encoder.encode(Batch(deleted_mail=(2,), deleted_output=True, deleted_error=True)))
    rows, _ = store.load()
    assert (rows.mail, rows.output, rows.error) == (((300, SIGNAL),), None, None)


def test_history_comes_in_key_order() -> None:
    encoder = RunEncoder()
    store = Store()
    store.apply(encoder.encode(CREATED))
    locations: list[Location] = [("s",)] + [(places.use("s", n),) for n in (300, 2, 1)]
    store.apply(encoder.encode(Batch(entries=tuple((place, step(1)) for place in locations))))
    assert [place for place, _ in store.load()[0].history] == [(("s", n, 0),) for n in (1, 2, 300)] + [("s",)]


names = st.sampled_from(["charge", "sleep", "a/b", "ä", "task", "x" * 255])
numbers = st.integers(0, 3) | st.integers(0, 70_000) | st.integers(0, 2**40)
segments = names | st.tuples(names, numbers) | st.tuples(names, numbers, st.integers(0, 4))
locations = st.lists(segments, min_size=1, max_size=4).map(tuple)


@pytest.mark.slow
@given(st.dictionaries(locations, strategies.entries, max_size=8), st.integers(0, 8))
def test_any_history_comes_back_however_it_was_divided_into_batches(history: dict[Location, Entry], cut: int) -> None:
    store, encoder = Store(), RunEncoder()
    store.apply(encoder.encode(CREATED))
    entries = tuple(history.items())
    store.apply(encoder.encode(Batch(entries=entries[:cut])))
    _, encoder = store.load()
    store.apply(encoder.encode(Batch(entries=entries[cut:], metadata=tuple((p, Metadata(2, 1)) for p in history))))
    rows, _ = store.load()
    assert dict(rows.history) == history
    assert rows.metadata.keys() == history.keys()


# --- damage


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ((1, 1), b"\x01a"),  # name 0 is missing
        ((2, 0), b""),  # an entry without bytes
        ((2, 7), records.encode_entry(step(1))),  # of a name that is not there
        ((2,), records.encode_entry(step(1))),  # of no place
        ((2, "a"), records.encode_entry(step(1))),
        ((2, (0, 1, 5)), records.encode_entry(step(1))),
        ((3, "2a"), records.encode_mail(SIGNAL)),  # not a number of 16 digits
        ((3, "000000000000002A"), records.encode_mail(SIGNAL)),
        ((4, 9), b""),
        ((4, 1), b"\xff"),
        ((5, "00"), records.encode_metadata(Metadata(1, 1))),  # of no entry
        ((7, 1), b""),
        ((), b""),
    ],
)
def test_a_row_that_makes_no_sense_is_refused_and_the_run_is_named(store: Store, key: keys.Key, value: bytes) -> None:
    store.rows[keys.pack(key)] = value
    with pytest.raises(RecordError, match="r1"):
        store.load()


@pytest.mark.parametrize("row", [1, 4, 5, 7])
def test_a_run_without_its_state_version_input_or_counters_is_refused(store: Store, row: int) -> None:
    del store.rows[keys.pack((4, row))]
    with pytest.raises(RecordError, match="r1"):
        store.load()


def test_rows_out_of_order_or_there_twice_are_refused(store: Store) -> None:
    rows = sorted(store.rows.items())
    for shuffled in [rows[::-1], [*rows, rows[-1]]]:
        with pytest.raises(RecordError, match="order"):
            decode_rows("r1", shuffled)


def test_a_name_that_is_there_twice_is_refused(store: Store) -> None:
    store.rows[keys.pack((1, 0))] = store.rows[keys.pack((1, 1))] = records.encode_name("a")
    with pytest.raises(RecordError, match="names are numbered"):
        store.load()


def test_k007_a_run_with_one_record_of_a_newer_version_is_refused(store: Store) -> None:
    _, encoder = store.load()
    store.apply(encoder.encode(Batch(entries=((("a",), Entry(1, 1, 1, 0, Checkpoint())),))))
    key = keys.pack((2, 0))
    store.rows[key] = b"\x02\x00" + store.rows[key][2:]
    with pytest.raises(RecordError, match="version 2"):
        store.load()


@given(st.binary(max_size=20).map(lambda tail: b"\x15\x02" + tail) | st.binary(max_size=20))
def test_any_key_gives_a_run_or_a_record_error(key: bytes) -> None:
    store = Store()
    store.apply(RunEncoder().encode(CREATED))
    store.apply(RunEncoder().encode(Batch(entries=((("a",), step(1)),))))
    store.rows[key] = records.encode_entry(step(2))
    try:
        rows, encoder = store.load()
    except RecordError:
        return
    for place, _ in rows.history:
        assert encoder.history_key(place) in store.rows
