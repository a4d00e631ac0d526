import importlib.metadata

from agent.version import VERSION


def test_the_program_and_its_package_are_of_one_version() -> None:
    assert importlib.metadata.version("headgate") == VERSION
