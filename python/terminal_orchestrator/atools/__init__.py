"""The tools of the terminal orchestrator, as functions."""

# Imported here and now, not on demand: from then on the name means the function, and not the module of the
# same name, in whatever order a program imports the two.
from terminal_orchestrator.atools.orchestrate_parallel import iterate_parallel, orchestrate_parallel

__all__ = ["iterate_parallel", "orchestrate_parallel"]
