"""Keys that nobody types: variables out of sight, the system keyring, and sign-ins that give tokens."""
