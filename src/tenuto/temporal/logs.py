"""Where the SDK's own log lines go: it prints them to standard output, which belongs to a command's answer."""

from __future__ import annotations

import logging

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

__all__ = ["forward_logs"]


def forward_logs() -> None:
    """From now on the SDK logs through Python, which writes warnings to standard error unless told otherwise.

    For command lines, before anything connects. In other programs the SDK's runtime is theirs to configure.
    """
    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    what = TelemetryFilter(core_level="WARN", other_level="ERROR")
    telemetry = TelemetryConfig(logging=LoggingConfig(filter=what, forwarding=forwarding))
    Runtime.set_default(Runtime(telemetry=telemetry), error_if_already_set=False)
