"""Makes `python -m terminal_orchestrator` the command line."""

import sys

from terminal_orchestrator.command_line import main

sys.exit(main())
