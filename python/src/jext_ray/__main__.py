"""`python -m jext_ray` is `jext-ray`."""

import sys

from .cli import main

sys.exit(main())
