"""Code that calls tools: a model writes a program, which runs in a process of its own and calls the tools
from there.
"""
