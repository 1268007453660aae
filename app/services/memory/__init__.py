"""What is known of the person: noted in the background, told to new threads."""
