"""Applications and libraries over the card, as Debian has them."""
