"""The parts of `scripts/make_models.py`."""
