"""One execution of a manifest: opening it, its context, its lanes, where it stands."""
