import ctypes

import pytest

from tests.support.c_device import WITH_AUTH, WITH_UPDATE, build_library


@pytest.fixture(scope="session")
def c_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """With every option on."""
    return build_library(tmp_path_factory.mktemp("c_library"), WITH_AUTH, WITH_UPDATE)
