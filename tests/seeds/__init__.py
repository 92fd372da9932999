"""The examples of the five design documents, run: their payloads are in `payloads`, one test module for each
document.
"""
