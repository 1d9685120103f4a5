"""The card in /sys, /dev and netlink under uroce run."""
