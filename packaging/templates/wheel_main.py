"""Executes the binary of vmcp that this package has installed: `python -m vmcp_server`, or `vmcp-server`."""

import os
import sys
import sysconfig


def _folders():
    """Yields the folders in which installers put scripts: of this environment, of the user, of `pip install --target`."""
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", scheme="posix_user")
    yield os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")


def main():
    for folder in _folders():
        program = os.path.join(folder, "vmcp")
        if os.access(program, os.X_OK):
            os.execv(program, [program, *sys.argv[1:]])
    sys.exit(f"vmcp-server: no vmcp in {', '.join(_folders())}; install vmcp-server again")


if __name__ == "__main__":
    main()
