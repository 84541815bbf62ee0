"""What the program prints, how it ends, and the signals that stop it."""
