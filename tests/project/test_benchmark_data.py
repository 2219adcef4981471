"""Rows are put into a repository's benchmark data; every other byte of it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.contracts.errors import UsageError
from warpsmith.project.benchmark_data import KEY, put_rows, with_rows

HEADER = ",".join([*KEY[:4], "metric_unit", *KEY[4:], "y_value_50", "timestamp", "liger_version"])
THEIRS = 'softmax,huggingface,forward,speed,ms,N,2048,"{""a"": 1,\n ""b"": 2}",A100,0.0100,"then, once",0.1\n'
OLD = 'rms_norm,liger,forward,speed,ms,N,2048,"{""M"": 8}",H200,9.0,then,0.1\n'


def row(**values: str) -> dict[str, str]:
    ours = ("rms_norm", "liger", "forward", "speed", "N", "2048", '{"M": 8}', "H200")
    return dict(zip(KEY, ours, strict=True)) | {"metric_unit": "ms", "y_value_50": "1.5", "timestamp": "now"} | values


NEW = 'rms_norm,liger,forward,speed,ms,N,2048,"{""M"": 8}",H200,1.5,now,\n'


@pytest.mark.parametrize(
    ("content", "expected", "replaced"),
    [
        (f"{HEADER}\n{THEIRS}", f"{HEADER}\n{THEIRS}{NEW}", 0),
        (f"{HEADER}\n{OLD}{THEIRS}", f"{HEADER}\n{NEW}{THEIRS}", 1),
        (f"{HEADER}\n{OLD}{THEIRS}{OLD}", f"{HEADER}\n{NEW}{THEIRS}", 1),  # there twice
        (f"{HEADER}\n{THEIRS}".rstrip(), f"{HEADER}\n{THEIRS}{NEW}", 0),
        (f"\ufeff{HEADER}\n{THEIRS}\u2028x\n", f"\ufeff{HEADER}\n{THEIRS}\u2028x\n{NEW}", 0),
        (f"{HEADER}\n", f"{HEADER}\n{NEW}", 0),
    ],
)
def test_a_row_takes_the_place_of_its_like_or_is_added_and_the_rest_stays_to_the_byte(
    content: str, expected: str, replaced: int
) -> None:
    assert with_rows(content.encode(), [row()], "data.csv") == (expected.encode(), replaced)
    assert with_rows(expected.encode(), [row()], "data.csv") == (expected.encode(), 1)


def test_line_ends_of_the_file_are_kept() -> None:
    content = f"{HEADER}\n{OLD}".replace("\n", "\r\n").encode()
    assert with_rows(content, [row()], "data.csv")[0] == f"{HEADER}\n{NEW}".replace("\n", "\r\n").encode()


@pytest.mark.parametrize("other", [{"gpu_name": "A100"}, {"x_value": "4096"}, {"kernel_provider": "torch"}])
def test_a_row_of_another_gpu_size_or_provider_is_another_row(other: dict[str, str]) -> None:
    content, replaced = with_rows(f"{HEADER}\n{OLD}".encode(), [row(**other)], "data.csv")
    assert replaced == 0 and content.startswith(f"{HEADER}\n{OLD}".encode())


def test_what_is_no_such_file_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        put_rows(tmp_path / "none.csv", [row()])
    for content, told in (
        (b"a,b\n1,2\n", "has no column kernel_name"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"", "no column"),
    ):
        path = tmp_path / "data.csv"
        path.write_bytes(content)
        with pytest.raises(UsageError, match=told):
            put_rows(path, [row()])
        assert path.read_bytes() == content
