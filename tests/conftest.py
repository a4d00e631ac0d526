"""Everything the whole test suite shares."""

import hypothesis

pytest_plugins = ["tests.system_packages", "tests.spark_session", "pytester"]

hypothesis.settings.register_profile("no clocks", deadline=None)  # how long an example takes says nothing about the code
hypothesis.settings.load_profile("no clocks")
