"""Every setting of the agent's configuration as a Markdown page, made of the types that check it.

What a field may hold comes from its annotation, its default from the class, and what it means from the comment behind
it: a setting is explained in one place, next to the code that obeys it.
"""

import ast
import dataclasses
import inspect
import io
import textwrap
import tokenize
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from agent import config
from agent.page_config import PageConfig
from agent.publisher_config import KINDS, PublisherConfig
from agent.routing import StreamRule
from drivers.settings import Between, Matching

__all__ = ["SECTIONS", "render_settings", "settings_of"]

HEADING: Final = """\
# Settings

Every setting of `headgate.toml`, made of the types that check it by `headgate check --settings`. What the tables mean
together is in [agent.md](agent.md); the settings of each driver are in its own README, beside a sample.
Relative paths count from the folder of the configuration. A secret is never a value here, only the path of a file.
"""
SECTIONS: Final[dict[str, type]] = {
    "[device]": config.DeviceConfig,
    "[journal]": config.JournalConfig,
    "[[streams]]": StreamRule,
    "[publishers.NAME], of every kind": PublisherConfig,
    **{f'[publishers.NAME] with kind = "{kind}"': KINDS[kind] for kind in sorted(KINDS)},
    "[archive]": config.ArchiveConfig,
    "[ship]": config.ShipConfig,
    "[page]": PageConfig,
    "[status]": config.StatusConfig,
    "[log]": config.LogConfig,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    name: str
    takes: str
    default: str
    meaning: str


def render_settings() -> str:
    return "\n".join([HEADING, *(_render_section(title, schema) for title, schema in SECTIONS.items())])


def _render_section(title: str, schema: type) -> str:
    rows = [f"| `{each.name}` | {each.takes} | {each.default} | {each.meaning} |" for each in settings_of(schema)]
    return "\n".join([f"## {title}", "", "| setting | takes | default | meaning |", "|---|---|---|---|", *rows, ""])


def settings_of(schema: type) -> Iterator[Setting]:
    """Those of the class itself, without what it inherits."""
    annotations = typing.get_type_hints(schema, include_extras=True)
    meanings = _comments(schema)
    for field in dataclasses.fields(schema):
        if field.name in meanings:
            takes, default = _takes(annotations[field.name]), _default(field)
            yield Setting(name=field.name, takes=takes, default=default, meaning=meanings[field.name])


def _comments(schema: type) -> dict[str, str]:
    """What stands behind each field of the class in its source; "" where nothing does."""
    source = textwrap.dedent(inspect.getsource(schema))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    return {
        node.target.id: " ".join(filter(None, (comments.get(row) for row in range(node.lineno, _end(node) + 1))))
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _end(node: ast.AnnAssign) -> int:
    return node.end_lineno or node.lineno


def _takes(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        checks = [_limit(check) for check in arguments[1:]]
        return " ".join(filter(None, (_takes(arguments[0]), *checks)))
    if origin in (types.UnionType, typing.Union):
        return _takes(next(each for each in arguments if each is not types.NoneType))
    if origin is tuple:
        return f"list of: {_takes(arguments[0])}"
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in arguments)
    return {str: "text", bool: "true, false", int: "whole number", float: "number", Path: "path"}[annotation]


def _limit(check: object) -> str:
    match check:
        case Between(low, high):
            return f"{low:,.10g} to {high:,.10g}"
        case Matching(_, example):
            return f"like `{example}`"
    return ""


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default is dataclasses.MISSING:
        return "required"
    if field.default in (None, "", ()):
        return "none"
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"
