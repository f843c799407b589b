"""Forward steps of the schema, one file each, named by number."""
