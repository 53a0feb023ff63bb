"""One rule a file, in a folder for each area."""
