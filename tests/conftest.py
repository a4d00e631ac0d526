"""Everything the whole test suite shares."""

pytest_plugins = ["tests.system_packages", "tests.spark_session", "pytester"]
