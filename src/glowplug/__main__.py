"""`python -m glowplug`."""

from glowplug.cli.main import entry

if __name__ == "__main__":
    entry()
