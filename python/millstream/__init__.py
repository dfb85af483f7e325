"""Python side of Millstream.

For users: stubs for Go functions in Dask graphs. Modules whose name begins with an underscore, and the
materialiser, service and sidecar, are the programs of Millstream's own Python children.
"""
