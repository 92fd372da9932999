"""The tool loop against peers and floors on one loopback server: `python -m bench.loop`."""
