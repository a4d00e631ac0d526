"""`headgate top`: how the agent is doing, live, in a terminal."""

import argparse
import contextlib
import curses
import sys
from typing import Final

from agent.commands.config_argument import add_config_argument, load_named_config
from agent.commands.status import Seen, last_seen
from agent.config import Config
from agent.errors import ConfigError
from agent.exit_codes import ExitCode
from agent.top_screen import Curves, Line, Mood, compose, cut
from agent.version import VERSION

DESCRIPTION = (
    "Watch the agent: journal, links, sensors, events. It reads what the agent writes to its status file, so it works"
    " whether the status page is on or not. Arrows scroll, q ends it."
)
LOOK_EVERY_MS: Final = 1000
ESCAPE: Final = 27
SCROLL: Final = {
    curses.KEY_DOWN: 1, ord("j"): 1, curses.KEY_NPAGE: 10, ord(" "): 10,
    curses.KEY_UP: -1, ord("k"): -1, curses.KEY_PPAGE: -10,
}  # fmt: skip
COLOURS: Final = {
    Mood.ATTENTION: curses.COLOR_YELLOW,
    Mood.BAD: curses.COLOR_RED,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--once", action="store_true", help="print it once, as where there is no terminal")


def run(arguments: argparse.Namespace) -> int:
    config = load_named_config(arguments)
    if arguments.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        seen = _last_seen(config)
        print("\n".join(line.text for line in compose(seen, Curves())))
        return ExitCode.OK if seen.is_moving else ExitCode.NO
    try:
        curses.wrapper(_watch, config)
    except curses.error as problem:
        raise ConfigError(f"this terminal cannot show it ({problem}); try --once") from None
    return ExitCode.OK


def _last_seen(config: Config) -> Seen:
    """Raises: ConfigError, OSError."""
    seen = last_seen(config)
    if seen.status.get("headgate") != VERSION:
        raise ConfigError(f"{config.status_file}: written by another version of Headgate; restart the agent")
    return seen


def _watch(screen: curses.window, config: Config) -> None:
    curses.use_default_colors()
    styles = _styles()
    screen.timeout(LOOK_EVERY_MS)
    with contextlib.suppress(curses.error):  # a terminal that cannot hide its cursor shows it
        curses.curs_set(0)
    curves, offset = Curves(), 0
    while True:
        lines = _look(config, curves)
        offset = max(0, min(offset, len(lines) - 1))
        _draw(screen, lines, offset, styles)
        key = screen.getch()
        if key in (ord("q"), ord("Q"), ESCAPE):
            return
        offset += SCROLL.get(key, 0)


def _look(config: Config, curves: Curves) -> list[Line]:
    """An agent that is away is something to show, too."""
    try:
        seen = _last_seen(config)
    except (ConfigError, OSError) as problem:
        return [Line(f"no status of the agent yet: {problem}", Mood.BAD)]
    curves.note(seen.status)
    return compose(seen, curves)


def _draw(screen: curses.window, lines: list[Line], offset: int, styles: dict[Mood, int]) -> None:
    height, width = screen.getmaxyx()
    screen.erase()
    for row, line in enumerate(cut(lines, offset, width - 1, height)):
        with contextlib.suppress(curses.error):  # the window became smaller meanwhile; the next round knows
            screen.addstr(row, 0, line.text, styles[line.mood])
    screen.refresh()


def _styles() -> dict[Mood, int]:
    styles = {Mood.PLAIN: curses.A_NORMAL, Mood.TITLE: curses.A_BOLD, Mood.QUIET: curses.A_DIM}
    for number, (mood, colour) in enumerate(COLOURS.items(), 1):
        if curses.has_colors():
            curses.init_pair(number, colour, -1)
            styles[mood] = curses.color_pair(number) | curses.A_BOLD
        else:
            styles[mood] = curses.A_BOLD
    return styles
