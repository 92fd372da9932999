"""Puts this directory on the import path, so that tests in its subdirectories can share helpers."""
