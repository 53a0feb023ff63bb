"""The command line: one file per command, one writer of output, one place where errors become lines and exit statuses."""
