"""What one user may take up."""

import pytest

from node.errors import Refused
from node.limits import Holder, Quota, QuotaLimits

ALICE = Holder("0xalice", "10.0.0.1")


def test_each_limit_is_named_when_it_is_reached() -> None:
    quota = Quota("streams", QuotaLimits(total=4, per_owner=2, per_address=3))
    quota.add(ALICE, 2)

    with pytest.raises(Refused, match=r"^0xalice has 2 streams .* may have 2 \(limits.max_streams_per_owner\); delete"):
        quota.check(ALICE)
    quota.add(Holder("0xbob", ALICE.origin))
    with pytest.raises(Refused, match=r"network address 10.0.0.1 has 3 .*max_streams_per_address"):
        quota.check(Holder("0xcarol", ALICE.origin))
    quota.add(Holder("0xdave", "10.0.0.2"))
    with pytest.raises(Refused, match=r"^The node has 4 streams .*\(limits.max_streams\)"):
        quota.check(Holder("0xerin", "10.0.0.3"))
    assert quota.refused == 3


def test_what_is_given_back_can_be_had_again_and_leaves_no_trace() -> None:
    quota = Quota("chains", QuotaLimits(total=9, per_owner=1, per_address=9))
    quota.add(ALICE)
    quota.add(ALICE, -1)
    quota.check(ALICE)

    assert (quota.total, quota._owners, quota._origins) == (0, {}, {})


def test_an_anonymous_user_is_bounded_by_the_address_alone() -> None:
    quota = Quota("chains", QuotaLimits(total=9, per_owner=1, per_address=2))
    quota.add(Holder("", "10.0.0.1"))
    quota.check(Holder("", "10.0.0.1"))
    quota.add(Holder("", "10.0.0.1"))

    with pytest.raises(Refused, match="per_address"):
        quota.check(Holder("", "10.0.0.1"))
