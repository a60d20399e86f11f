"""The earlier home of `minibert.page.build`, kept for one release."""

import importlib
import sys

sys.modules[__name__] = importlib.import_module("minibert.page.build")
