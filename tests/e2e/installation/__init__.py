"""What is installed, and how it is started there."""
