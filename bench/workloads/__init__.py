"""The workloads W1 to W7 for Tenuto and for peers that install from PyPI, each contestant in a process of its own."""
