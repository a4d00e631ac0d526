"""How long tests wait for what must come: long, because a wait that succeeds costs nothing and machines are busy."""

from typing import Final

PATIENCE_S: Final = 300.0
