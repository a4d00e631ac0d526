"""`python -m agent` is the `headgate` command."""

import sys

from agent.cli import main

sys.exit(main())
