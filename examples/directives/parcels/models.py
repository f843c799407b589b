"""What is sent."""

from __future__ import annotations

__all__ = ["Parcel"]


class Parcel:
    """A parcel; runs store it as its weight and destination."""

    def __init__(self, to: str, grams: int) -> None:
        self.to = to
        self.grams = grams

    def __workflow_serialize__(self) -> dict[str, str | int]:
        return {"to": self.to, "grams": self.grams}

    @classmethod
    def __workflow_deserialize__(cls, data: dict[str, str | int]) -> Parcel:
        return cls(str(data["to"]), int(data["grams"]))
