"""Sending parcels, durably."""
