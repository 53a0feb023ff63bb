"""`glowplug run`: one engine, supervised. Child and streams know nothing of caches; `run` knows the order of things."""
