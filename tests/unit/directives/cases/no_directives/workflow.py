"""Nothing to do with "use step" here."""

def plain(x):
    """Use step sizes below 3."""
    return x
