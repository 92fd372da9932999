"""One runner a peer: each is started by the bench with the Python of that peer's own environment (see
bench/peers.txt).
"""
