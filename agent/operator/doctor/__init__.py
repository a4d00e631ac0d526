"""Diagnoses problems of the agent and its machine, with advice.

Each area gathers facts in a thin shell and judges them in pure functions: facts in, findings out.
"""

from agent.operator.doctor.examination import examine
from agent.operator.doctor.finding import Finding, Severity

__all__ = ["Finding", "Severity", "examine"]
