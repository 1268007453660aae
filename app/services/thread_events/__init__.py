"""The v2 events of threads: made of what runs have stored, when somebody reads them."""
