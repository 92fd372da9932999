"""A wire of the tests' own: what CONTRIBUTING's recipe asks for, and no more.

Text and calls, one JSON line per event.
"""
