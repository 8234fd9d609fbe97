"""Attention to a cache of keys and values, which is dense or paged and gets the newest ones in place."""
