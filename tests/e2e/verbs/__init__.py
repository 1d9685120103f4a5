"""What a program does with verbs, and with librdmacm."""
