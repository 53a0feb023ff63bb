"""`python -m glowplug` does what the console script does, for images where scripts are not on PATH."""

from glowplug.cli.main import entry

if __name__ == "__main__":
    entry()
