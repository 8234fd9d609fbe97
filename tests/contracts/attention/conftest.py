"""What the tests of the contract `attention` share."""

from kept_answers import kept_answers  # noqa: F401  a fixture
