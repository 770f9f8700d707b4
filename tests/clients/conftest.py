"""The client in Go is built once for all tests that use it."""

from __future__ import annotations

import pytest

from tests.clients.go_program import GoClient, built


@pytest.fixture(scope="session")
def go_client(tmp_path_factory: pytest.TempPathFactory) -> GoClient:
    return built(tmp_path_factory.mktemp("go") / "client")
