"""`python -m tenuto.cli`: how commands start their own worker processes."""

from tenuto.cli import main

main(prog_name="tenuto")
