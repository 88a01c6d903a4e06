"""What a certificate rests on."""
