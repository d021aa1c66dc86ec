"""One execution of a manifest: opened, read, known by what it asks."""
