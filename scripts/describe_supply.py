"""Describe what an installation of Tenuto consists of: pins with hashes, and a bill of materials made from them.

`python scripts/describe_supply.py --write` asks the package index; without it the bill is compared with the pins. Both
files are part of a release: `pip install --require-hashes -r supply/requirements.txt` installs what was tested.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PINS = ROOT / "supply" / "requirements.txt"
BILL = ROOT / "supply" / "sbom.cdx.json"
EXTRAS = ("encryption", "lsp", "postgres", "temporal", "yaml")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def pins(text: str) -> dict[str, tuple[str, list[str]]]:
    """The version and the hashes of each package that a requirements file pins."""
    found = list(_PIN.finditer(text))
    ends = [pin.start() for pin in found[1:]] + [len(text)]
    return {pin[1]: (pin[2], sorted(_HASH.findall(text, pin.end(), end))) for pin, end in zip(found, ends, strict=True)}


def bill_of(text: str) -> dict[str, Any]:
    """A CycloneDX bill of materials for these pins."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "library", "name": "tenuto", "licenses": [{"license": {"id": "Apache-2.0"}}]}
        },
        "components": [
            {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
                "properties": [{"name": "sha256", "value": value} for value in hashes],
            }
            for name, (version, hashes) in pins(text).items()
        ],
    }


def compiled() -> str:
    """The pins of the present dependencies, at the versions that are tested."""
    extras = [part for extra in EXTRAS for part in ("--extra", extra)]
    command = ["uv", "pip", "compile", "pyproject.toml", "--universal", "--generate-hashes", "--no-header", "--quiet"]
    command += ["--no-annotate", "--python-version", "3.11", "--constraints", "constraints.txt", *extras]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> None:
    if "--write" in sys.argv:
        PINS.parent.mkdir(exist_ok=True)
        PINS.write_text(compiled())
        BILL.write_text(json.dumps(bill_of(PINS.read_text()), indent=1) + "\n")
    elif json.loads(BILL.read_text()) != bill_of(PINS.read_text()):
        sys.exit("the bill of materials is not that of the pins: run python scripts/describe_supply.py --write")


if __name__ == "__main__":
    main()
