"""Everything the whole test suite shares."""

import hypothesis

pytest_plugins = ["tests.system_packages", "tests.spark_session", "pytester"]

hypothesis.settings.register_profile("no clocks", deadline=None)  # slow is not wrong
hypothesis.settings.load_profile("no clocks")
