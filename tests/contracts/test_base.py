"""A path of the repository stays in it."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from warpsmith.contracts.base import RepositoryPath

PATH: TypeAdapter[str] = TypeAdapter(RepositoryPath)


@pytest.mark.parametrize("path", ["kernel.py", "src/a b/kernel.py", "./kernel.py", "a..b/kernel.py"])
def test_a_path_below_the_root_is_kept_as_it_is(path: str) -> None:
    assert PATH.validate_python(path) == path


@pytest.mark.parametrize("path", ["", ".", "./", "/etc/kernel.py", "../kernel.py", "src/../../kernel.py", "a\0b.py"])
def test_any_other_path_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="expected a path below the repository's root"):
        PATH.validate_python(path)
