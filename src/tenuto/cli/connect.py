"""Which store a command works on, and with which of the user's code: `--url`, `--app`, `--root`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenuto.app import Tenuto
from tenuto.cli.exits import exit_code_of
from tenuto.cli.loading import load_apps, load_object
from tenuto.cli.output import complain, cut, safe
from tenuto.codec.sealing import Codec
from tenuto.errors import ConfigError, StoreUnavailableError, TenutoError, UnsupportedError
from tenuto.host.engine import NativeEngine
from tenuto.kernel.location import check_name, parse
from tenuto.model.durations import milliseconds
from tenuto.store.clock import system_clock
from tenuto.store.port import Store
from tenuto.store.sealed import sealed
from tenuto.store.urls import DEFAULT_URL, store_of

__all__ = [
    "Place",
    "attributes_of",
    "check_location",
    "duration_option",
    "finish",
    "json_option",
    "location_option",
    "on_cluster",
    "run_argument",
    "values_of",
    "with_store",
]

if TYPE_CHECKING:
    from tenuto.temporal.engine import TemporalEngine

T = TypeVar("T")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _check_run(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """An id as a run may have it; `InvalidNameError`."""
    return check_name(value)


run_argument = click.argument("run_id", metavar="RUN", callback=_check_run)


def check_location(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A place in a history, as `tenuto show` prints it."""
    try:
        if value is not None:
            parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return value


def _check_duration(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    try:
        if value is not None:
            milliseconds(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return value


def location_option(name: str, **settings: Any) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """An option that is a place in a history."""
    return click.option(name, metavar="LOCATION", callback=check_location, **settings)


def duration_option(name: str, **settings: Any) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """An option that is a duration: `250ms`, `1h30m`, `1 day`."""
    return click.option(name, metavar="DURATION", callback=_check_duration, **settings)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command works."""

    url: str
    apps: tuple[str, ...] = ()
    root: str | None = None
    codec: str | None = None  # MODULE:NAME

    @property
    def is_native(self) -> bool:
        """Whether the runs are in a store of ours, and not on a Temporal cluster."""
        return not self.url.startswith("temporal:")

    def load(self) -> None:
        """Loads the user's code; nothing where none was named."""
        load_apps(self.apps, self.root)

    def arguments(self) -> list[str]:
        """The same place on the command line of a child, which gets the URL by its environment: see `environment`."""
        given: list[str] = []
        for app in self.apps:
            given += ["--app", app]
        given += [] if self.root is None else ["--root", self.root]
        return given if self.codec is None else [*given, "--codec", self.codec]

    def environment(self) -> dict[str, str]:
        """The environment of a child: whoever lists processes must not read a password."""
        return {**os.environ, "TENUTO_URL": self.url}

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[Tenuto]:
        """An app that only looks: a store of ours is opened for reading, and nothing is created or migrated."""
        app = Tenuto(self.url, worker=False)
        if self.is_native:
            self.require_file()
            app.engine = NativeEngine(self.store(read_only=True), None)
        async with app:
            yield app

    @asynccontextmanager
    async def writing(self, *, create: bool = False) -> AsyncGenerator[Tenuto]:
        """A client that may change something. A file that is not there is made only where that is asked for."""
        app = Tenuto(self.url, worker=False, codec=self.loaded_codec())
        if self.is_native and not create:
            self.require_file()
        async with app:
            yield app

    def require_file(self) -> None:
        """Says that a file is not there; where none was named, most likely the folder is the wrong one."""
        path = getattr(self.plain_store(), "path", None)
        if not isinstance(path, Path) or path.is_file():
            return
        if self.url == DEFAULT_URL:
            here = Path.cwd()
            raise ConfigError(f"no store here: there is no {path} in {here}; name one with --url, or change folder")
        raise StoreUnavailableError(f"{path}: there is no such file; name another with --url")

    def store(self, *, read_only: bool) -> Store:
        """The store itself, not open."""
        store, codec = self.plain_store(read_only=read_only), self.loaded_codec()
        return store if codec is None else sealed(store, codec)

    def plain_store(self, *, read_only: bool = False) -> Store:
        """The store as it is, whatever its values are sealed with."""
        return store_of(self.url, system_clock, read_only=read_only)

    def loaded_codec(self) -> Codec | None:
        """What the values of the store are sealed with, out of the user's code."""
        return None if self.codec is None else load_object(self.codec, "--codec")


def with_store(command: Callable[..., T]) -> Callable[..., T]:
    """Gives a command `--url`, `--app` and `--root`, and hands them to it as its first argument, a `Place`."""

    @click.option(
        "--url",
        envvar="TENUTO_URL",
        metavar="URL",
        help=f"The store: sqlite:///path, postgresql://…, temporal://… (TENUTO_URL; default {DEFAULT_URL}).",
    )
    @click.option(
        "--app",
        "apps",
        envvar="TENUTO_APP",
        multiple=True,
        metavar="MODULE|FILE",
        help="Load this code first: a module's name or a file (TENUTO_APP; may be repeated).",
    )
    @click.option("--root", type=click.Path(exists=True, file_okay=False), help="The folder that ids are relative to.")
    @click.option(
        "--codec",
        envvar="TENUTO_CODEC",
        metavar="MODULE:NAME",
        help="What values are encrypted or compressed with: the codec= of your app, by its name (TENUTO_CODEC).",
    )
    @wraps(command)
    def call(url: str | None, apps: tuple[str, ...], root: str | None, codec: str | None, **given: Any) -> T:
        return command(Place(url or DEFAULT_URL, apps, root, codec), **given)

    return call


def finish(work: Callable[[], Coroutine[Any, Any, T]], place: Place) -> T:
    """Loads the user's code, then runs a command's work to its end. In this order: code is loaded outside any loop."""
    if not place.is_native:
        with suppress(ModuleNotFoundError):  # without the SDK the app says so
            _prepare_for_a_cluster()
    place.load()
    try:
        return asyncio.run(work())
    except TenutoError:
        raise
    except ValueError as error:  # what was given is what a call refused, as it would in Python
        complain(error)
        sys.exit(exit_code_of(error))


def _prepare_for_a_cluster() -> None:
    """Loads the SDK before the user's code: from then on every module that is imported is looked at for directives."""
    import tenuto.temporal.engine
    from tenuto.temporal.logs import forward_logs

    assert tenuto.temporal.engine  # noqa: S101  # loaded
    forward_logs()


def on_cluster(app: Tenuto) -> TemporalEngine:
    """The engine of an app whose runs are on a Temporal cluster."""
    from tenuto.temporal.engine import TemporalEngine

    if not isinstance(app.engine, TemporalEngine):
        raise UnsupportedError(f"{type(app.engine).__name__} has no such view of its runs")
    return app.engine


def values_of(arguments: Sequence[str]) -> list[Any]:
    """Arguments of a workflow, signal or update, each written as JSON."""
    return [_value(text, number) for number, text in enumerate(arguments, 1)]


def _value(text: str, number: int) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        quoted = json.dumps(cut(safe(text), 60), ensure_ascii=False)
        raise click.BadParameter(
            f"argument {number} is not JSON ({error}); a text is written with its quotes: '{quoted}'"
        ) from None
    except RecursionError:
        raise click.BadParameter(f"argument {number} nests too deep") from None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def attributes_of(pairs: Sequence[str]) -> dict[str, str | int | float | bool]:
    """`name=value` pairs; a value that is a JSON number or true or false is one."""
    found: dict[str, str | int | float | bool] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        found[name] = value if isinstance(value, str | int | float | bool) else text
    return found
