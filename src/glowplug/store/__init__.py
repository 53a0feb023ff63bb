"""The store: where manifests and bundles live for everyone. A contract in prose, back ends, decorators of the same
interface.
"""
