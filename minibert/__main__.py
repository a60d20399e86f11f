"""`python -m minibert` is the `minibert` command."""

import sys

from minibert.cli import main

sys.exit(main())
