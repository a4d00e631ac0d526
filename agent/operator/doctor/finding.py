"""The result of one check."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    OK = "ok"
    WARNING = "warning"  # it works; it may not for long, or not as well as it could
    ERROR = "error"  # data is lost or not delivered, now or at the next start


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    area: str
    severity: Severity
    text: str
    advice: str = ""  # what to do; "" where there is nothing to be done


def good(area: str, text: str) -> Finding:
    return Finding(area=area, severity=Severity.OK, text=text)


def warning(area: str, text: str, advice: str) -> Finding:
    return Finding(area=area, severity=Severity.WARNING, text=text, advice=advice)


def error(area: str, text: str, advice: str) -> Finding:
    return Finding(area=area, severity=Severity.ERROR, text=text, advice=advice)
