"""The lines that the calibration keeps, as they are being measured and packed afterwards."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def read_records(directory: Path) -> list[Record]:
    """Packed ones first; a torn last line, of a measurement that was interrupted, is left out."""
    packed, growing = directory / "calibration.jsonl.gz", directory / "calibration.jsonl"
    lines: list[str] = []
    if packed.is_file():
        lines += gzip.decompress(packed.read_bytes()).decode().splitlines()
    if growing.is_file():
        lines += [line for line in growing.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
    return [json.loads(line) for line in lines]


def pack_records(directory: Path, records: list[Record]) -> None:
    """All of them in calibration.jsonl.gz, the same bytes for the same records."""
    text = "".join(json.dumps(record) + "\n" for record in records)
    (directory / "calibration.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (directory / "calibration.jsonl").unlink(missing_ok=True)
