"""What one run on a cluster is made of, in the memory of its worker."""
