"""JSON Schema as a value: what each wire accepts, and a schema in its words.

Pure: no I/O, no clock, no environment.
"""
