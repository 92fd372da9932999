"""Speed as ratios, measured side by side: `python -m bench [--quick] [--json] [SECTION …]`."""
