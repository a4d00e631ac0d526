"""The oracle: judges a scenario at its end, independently of the parts under test.

It compares the numbers that devices recorded before they sent them, the messages that nodes and witnesses received, and
the archives, byte by byte. The ledger of the ingest must agree.
"""

from testbed.oracle.evidence import Evidence, gather_evidence
from testbed.oracle.judge import Judgement, find_differences, judge
from testbed.oracle.lake import Lake, read_lake
from testbed.oracle.messages import MessageReader

__all__ = [
    "Evidence",
    "Judgement",
    "Lake",
    "MessageReader",
    "find_differences",
    "gather_evidence",
    "judge",
    "read_lake",
]
