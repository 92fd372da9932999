"""Keys that nobody types: hidden environment variables, the system keyring, and sign-ins that return tokens."""
