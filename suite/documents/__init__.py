"""What the teaching documents train, claim and draw."""
