"""Packages whose names are imported when they are first used, so that a device loads no layer that it does without.

if TYPE_CHECKING:
    from package.part import Name        what type checkers read
else:
    __getattr__ = names_on_use(__name__, ("part",), __all__)
"""

from collections.abc import Callable, Collection, Sequence
from importlib import import_module

__all__ = ["names_on_use"]


def names_on_use(package: str, modules: Sequence[str], names: Collection[str]) -> Callable[[str], object]:
    """The `__getattr__` of a package: looks in its modules, in turn, for one of the names that it offers."""

    def find(name: str) -> object:
        if name in modules:
            return import_module(f"{package}.{name}")
        for module in modules if name in names else ():
            offered = vars(import_module(f"{package}.{module}"))
            if name in offered:
                setattr(import_module(package), name, offered[name])  # the next use does not come here
                return offered[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
