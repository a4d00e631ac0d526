from typing import Any

import pytest

from agent.journal import JournalSettings


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"segment_bytes": 5000}, "segment_bytes 5000 is not in"),
        ({"segment_bytes": 20_000}, "not a multiple of 4096"),
        ({"max_bytes": 1 << 20}, "4 are needed"),
        ({"max_bytes": 1 << 40}, "more than 4096 segments"),
        ({"commit_records": 0}, "commit_records 0"),
        ({"cursors": ()}, "cursors 0"),
        ({"thinned_lanes": frozenset({32})}, "thinned_lanes"),
        ({"spare_segments": 0}, "spare_segments"),
    ],
)
def test_a_setting_out_of_range_is_named_with_its_limit(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        JournalSettings(**change)


def test_state_files_and_segments_together_stay_within_the_cap() -> None:
    settings = JournalSettings()
    assert 2 * settings.state_bytes + settings.max_segments * settings.segment_bytes <= settings.max_bytes
