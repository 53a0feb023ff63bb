"""`make demo`: the main job of glowplug on real parts of one machine. Not part of the wheel."""
