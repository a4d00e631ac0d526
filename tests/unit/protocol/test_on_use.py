import importlib
import subprocess
import sys

import pytest

import protocol.archive
import protocol.streamr

WITHOUT = ("nacl", "websockets", "protocol.streamr.network", "protocol.streamr.control", "protocol.iomessage.as_xml")


@pytest.mark.parametrize("package", ["protocol.archive", "protocol.streamr"])
def test_every_name_that_a_package_offers_is_found(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_a_name_is_the_one_that_its_module_has() -> None:
    from protocol.streamr.network import parse_network_message

    assert protocol.streamr.parse_network_message is parse_network_message


def test_what_a_package_does_not_offer_is_not_found() -> None:
    with pytest.raises(AttributeError, match="no attribute 'import_module'"):
        protocol.archive.import_module  # type: ignore[attr-defined]  # noqa: B018


def test_the_agent_starts_without_the_layers_that_it_may_never_use() -> None:
    command = "import sys, agent.commands.run; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert set(WITHOUT) & set(done.stdout.split()) == set()
