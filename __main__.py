"""``python -m mixedmode``: the command line, also where no console script was installed."""

from .planner.cli.app import run

if __name__ == "__main__":
    run()
