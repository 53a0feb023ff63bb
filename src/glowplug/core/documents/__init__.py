"""The documents that glowplug writes and reads: frozen dataclasses of `glowplug.<name>/1`, one module each.

Names of fields are a promise (docs/schema/): a field is never renamed, only added. Unknown fields are ignored on reading.
"""
