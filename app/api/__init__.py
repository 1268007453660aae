"""HTTP in, HTTP out: one file per resource."""
