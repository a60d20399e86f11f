"""Parts of the recipe of the bundled models, which `scripts/make_models.py` runs."""
