"""The same program in several libraries, as it should be and with mistakes in it, and what each library says.

`python -m bench.comparison` runs the programs against the simulator, over HTTP on this machine;
`--write` also keeps the results, from which docs/comparison.md is generated.
"""
