"""Where everything is kept: the port every store meets, and the stores."""
