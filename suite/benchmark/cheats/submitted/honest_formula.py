"""The formula in three lines."""


def attention(query, key, value):
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if 0 in scores.shape:
        return query.new_zeros(*query.shape[:-1], value.shape[-1])
    return (
        scores.float().softmax(-1).to(value.dtype) @ value if scores.dtype.itemsize < 4 else scores.softmax(-1) @ value
    )
