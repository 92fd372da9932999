"""The wire `parrot-lines`: one JSON object per line, with text and calls."""
