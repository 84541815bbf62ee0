"""What Watchbell costs, each figure next to its floor or a peer of the same run."""
