"""Everything the whole test suite shares."""

import signal

import hypothesis

from tests.effort import EXAMPLES

pytest_plugins = [
    "tests.support.system_packages",
    "tests.support.scheduling",
    "tests.support.soak_order",
    "tests.support.timing",
    "tests.support.spark_session",
    "tests.support.descriptors",
    "pytester",
]

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background ignores
hypothesis.settings.register_profile("by effort", deadline=None, max_examples=EXAMPLES)  # slow is not wrong
hypothesis.settings.load_profile("by effort")
