"""What is wrong around the agent, and what to do about it.

Each area gathers facts in a thin shell and judges them in pure functions: facts in, findings out.
"""

from agent.doctor.examination import examine
from agent.doctor.finding import Finding, Severity

__all__ = ["Finding", "Severity", "examine"]
