"""Submissions that try to fool the suite, each beside the verdict that it must get, and the audit that submits them."""
