"""What the tests of checks share."""

from kept_answers import kept_answers  # noqa: F401  a fixture
