"""What the service adds to the graph it hosts: requests over HTTP beside the same graph without it."""
