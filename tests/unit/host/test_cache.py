"""Runs kept in memory: so many bytes, the least recently used go first."""

from __future__ import annotations

from tenuto.host.cache import RunCache


class Kept:
    def __init__(self, size: int) -> None:
        self.bytes = size
        self.dropped = False

    def drop(self) -> None:
        self.dropped = True


def test_the_least_recently_used_go_when_the_bytes_are_used_up() -> None:
    cache: RunCache[Kept] = RunCache(100)
    runs = {name: Kept(40) for name in "abc"}
    cache.put("a", runs["a"])
    cache.put("b", runs["b"])
    cache.put("a", cache.pop("a") or Kept(0))
    cache.put("c", runs["c"])
    assert [name for name, run in runs.items() if run.dropped] == ["b"]
    assert (cache.pop("b"), cache.pop("a"), len(cache)) == (None, runs["a"], 1)


def test_a_run_larger_than_all_room_is_not_kept_and_leaves_room_for_others() -> None:
    cache: RunCache[Kept] = RunCache(100)
    large, small = Kept(101), Kept(100)
    cache.put("large", large)
    cache.put("small", small)
    assert (large.dropped, small.dropped, len(cache)) == (True, False, 1)


def test_an_older_copy_of_a_run_is_dropped_and_its_bytes_are_free() -> None:
    cache: RunCache[Kept] = RunCache(100)
    old, new = Kept(60), Kept(70)
    cache.put("a", old)
    cache.put("a", new)
    assert (old.dropped, new.dropped) == (True, False)
    cache.put("b", Kept(30))
    assert [run.bytes for run in cache] == [70, 30]


def test_not_more_runs_than_allowed_are_kept_however_small() -> None:
    cache: RunCache[Kept] = RunCache(100, 2)
    runs = [Kept(1) for _ in range(3)]
    for number, run in enumerate(runs):
        cache.put(str(number), run)
    assert [run.dropped for run in runs] == [True, False, False]
    cache.clear()
    assert all(run.dropped for run in runs)
    assert len(cache) == 0
