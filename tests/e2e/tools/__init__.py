"""The subcommands of uroce."""
