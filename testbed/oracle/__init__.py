"""Who judges at the end. It believes no part that was under test: it reads what the devices wrote down before they
spoke, what others have seen, and the archives byte by byte; then the ingest's own ledger must say the same.
"""

from testbed.oracle.evidence import Evidence, gather_evidence
from testbed.oracle.judge import Judgement, judge
from testbed.oracle.lake import Lake, read_lake

__all__ = ["Evidence", "Judgement", "Lake", "gather_evidence", "judge", "read_lake"]
