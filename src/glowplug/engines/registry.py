"""Which engines there are. Order is the order in which they are asked whether a command line is theirs."""
