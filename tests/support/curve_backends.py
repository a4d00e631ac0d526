"""Every backend that signature tests run on."""

import pytest

from protocol.ethereum.coincurve_backend import CoincurveBackend
from protocol.ethereum.eth_keys_backend import EthKeysBackend

on_every_backend = pytest.mark.parametrize(
    "backend",
    [
        pytest.param(CoincurveBackend(), id="coincurve"),
        pytest.param(EthKeysBackend(pure_python=True), id="eth-keys in pure Python"),
    ],
)
