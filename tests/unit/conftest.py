"""What several unit tests share."""

from __future__ import annotations

import pytest

from tests.unit.fake_broker import FakeBroker


@pytest.fixture(params=[False, True], ids=["through tasks", "direct"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A story of the kit has the same end over both kinds of transports."""
    monkeypatch.setattr(FakeBroker, "direct", request.param)
