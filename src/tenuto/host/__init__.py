"""What makes runs run: performing what a committed turn asked for."""
