"""Run the command line: `python -m litellm_registry_hook`."""

import sys

from litellm_registry_hook.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
