"""What `benchmark/profiles.py` profiles and keeps, and what is made of it."""
