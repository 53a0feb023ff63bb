"""vLLM, from 0.10 to the newest: tables and readers, one module for each thing that a new version may change."""
