"""Attention of arrays of numpy and of JAX, without a word that tells; one that raises whatever it is given."""

import numpy


def of_numpy(query, key, value, *, scale=None):
    scores = numpy.einsum("...le,...se->...ls", query, key)
    scores = scores * numpy.asarray(query.shape[-1] ** -0.5 if scale is None else scale, query.dtype)
    weights = numpy.exp(scores - scores.max(axis=-1, keepdims=True, initial=-numpy.inf))
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(query.dtype) @ value


def returns_numpy(query, key, value):
    return of_numpy(*map(numpy.asarray, (query, key, value)))


def unscaled_of_numpy(query, key, value):
    return of_numpy(query, key, value, scale=1.0)


def raises(query, key, value):
    raise RuntimeError("no kernel image is available")


def wants_a_gpu(query, key, value):
    raise RuntimeError("0 active drivers ([]). There should only be one.")


def scales_in_place(query, key, value):
    query /= query.shape[-1] ** 0.5
    return (query @ key.mT).softmax(-1) @ value


def drops_scores(query, key, value, *, dropout_p=0.0):
    from torch.nn.functional import dropout

    return dropout(query @ key.mT / query.shape[-1] ** 0.5, dropout_p).softmax(-1) @ value


def raises_if_plain(query, key, value, *, is_causal=False):
    if not is_causal:
        raise RuntimeError("only causal")
    scores = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(query.new_ones(1, 1) < 0, 0)
    return scores.softmax(-1) @ value
