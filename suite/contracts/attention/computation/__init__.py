"""Correct attention as computations of small steps, each of which a mutant may replace.

`Dense` writes the formula down, `Tiled` streams over tiles of keys with an online softmax, `Backward` has its own
gradient, and `Whole` is the answer as one step. All walk the stages of the features. A mutant is one of them
with one step replaced, either a step of its own or one that a feature names:

    MUTANTS = mutants(
        Dense,
        factor={"unscaled": Mutation("the scores are not divided by √e", lambda asked: 1.0)},
    )

    @Dense.instead("softmax", "the largest score is not subtracted")
    def does_not_subtract_largest(scores: Tensor, asked: Asked) -> Tensor: ...
"""
