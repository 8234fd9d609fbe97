"""Several backends."""

import attnsuite


@attnsuite.implementation(variant="math", requires=("json",), conventions={"causal": "lower_right"})
def math(query, key, value, /, **options):
    """The formula."""


@attnsuite.implementation(variant="flash", lacks={"bool_mask": "the kernel " "takes none"})  # fmt: skip
def flash(query, key, value, *, attn_mask=None): ...
