"""A configuration file to read, and a way to read it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.config import Complaint, Complaints, Config, load

Load = Callable[..., Config]
Complain = Callable[..., list[Complaint]]


@pytest.fixture
def loaded(tmp_path: Path) -> Load:
    """Load a configuration from its text, with these environment variables and no others."""

    def load_text(text: str, **environ: str) -> Config:
        path = tmp_path / "doubtless.toml"
        path.write_text(text, "utf-8")
        return load(str(path), environ)

    return load_text


@pytest.fixture
def complaints(loaded: Load) -> Complain:
    """Load a configuration that is refused; return every complaint."""

    def refuse(text: str, **environ: str) -> list[Complaint]:
        with pytest.raises(Complaints) as caught:
            loaded(text, **environ)
        return list(caught.value.complaints)

    return refuse
