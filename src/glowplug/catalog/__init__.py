"""Facts with a source: GPU instances, GPU names, engine releases, streamer variables, limits and prices. CSV and typed access."""
