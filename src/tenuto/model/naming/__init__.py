"""Which operation names workflow code can issue, read from its source and from that of project files it calls."""
