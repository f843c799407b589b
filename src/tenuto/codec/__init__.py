"""Bytes: tuples as keys, records as BARE, user values as CBOR."""
