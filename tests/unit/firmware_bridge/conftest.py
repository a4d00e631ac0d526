import ctypes

import pytest

from tests.c_device import build_library


@pytest.fixture(scope="session")
def c_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """With every option on."""
    return build_library(tmp_path_factory.mktemp("c_library"), "-DHG_WITH_AUTH=1", "-DHG_WITH_UPDATE=1")
