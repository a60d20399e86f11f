"""The earlier home of `minibert.page`, kept for one release."""
