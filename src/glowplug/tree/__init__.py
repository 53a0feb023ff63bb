"""A directory as data: index, difference, safe copy, sealed archive. Standard library only; knows no engine and no store."""
