"""A plug-in for toolglot with one of each kind."""
