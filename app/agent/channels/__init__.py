"""What the channels of a thread hold beside messages, and how two writes become one: a file each, pure."""
