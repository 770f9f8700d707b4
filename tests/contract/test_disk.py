"""The disks that keep the promises of disk_contract.py: the real one, and the one that tests script."""

from __future__ import annotations

from pathlib import Path

import pytest

from bowstring.host.disk import HostDisk
from tests.contract.scripted_disk import Platter, ScriptedDisk

pytest.register_assert_rewrite("tests.contract.disk_contract")
from tests.contract.disk_contract import DiskContract, Medium  # noqa: E402


class TestHostDisk(DiskContract):
    @pytest.fixture
    def medium(self, tmp_path: Path) -> Medium:
        return Medium(disk=lambda: HostDisk(tmp_path))


class TestHostDiskWithoutPrewriting(DiskContract):
    @pytest.fixture
    def medium(self, tmp_path: Path) -> Medium:
        return Medium(disk=lambda: HostDisk(tmp_path, prewrite_seconds=0))


class TestScriptedDisk(DiskContract):
    @pytest.fixture
    def medium(self) -> Medium:
        platter = Platter()
        return Medium(disk=lambda: ScriptedDisk(platter), cut=platter.cut)
