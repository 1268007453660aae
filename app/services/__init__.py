"""Use cases: the only place where steps are put in order."""
