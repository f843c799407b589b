"""The pure core: one run, advanced one turn at a time. No clock, no I/O, no threads, no randomness."""
