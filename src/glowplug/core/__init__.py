"""What everything else stands on: errors, time, sizes, canonical JSON, atomic files, the documents. Standard library only."""
