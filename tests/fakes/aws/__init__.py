"""A double of AWS for tests and for trying the playbooks by hand: moto, patched in process, behind an HTTP server."""
