"""The trainings, claims and figures of the teaching documents."""
