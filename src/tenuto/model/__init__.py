"""What workflow code calls: one module per group of calls, written in plain asyncio over `port.Port`."""

__all__: list[str] = []
